"""Schedulers: in this thread, in several threads, and a cluster."""

import dask
import pytest
from distributed import Client

from data.dask.blocks import local_cluster


@pytest.fixture(scope="module")
def client():
    with local_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(params=["threads", "cluster"])
def scheduler(request):
    if request.param != "cluster":
        with dask.config.set(scheduler=request.param):
            yield request.param
        return
    with request.getfixturevalue("client").as_current():
        yield request.param


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="sync"):
        yield
