"""Schedulers: in this thread, in several threads, and a cluster."""

import dask
import pytest
from distributed import Client

from data.dask.blocks import a_cluster


@pytest.fixture(scope="module")
def client():
    with a_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(params=["sync", "threads", "cluster"])
def engine(request):
    if request.param != "cluster":
        with dask.config.set(scheduler=request.param):
            yield request.param
        return
    with request.getfixturevalue("client").as_current():
        yield request.param


@pytest.fixture
def here():
    with dask.config.set(scheduler="sync"):
        yield
