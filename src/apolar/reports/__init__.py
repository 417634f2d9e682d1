"""The page on the clusters of a table."""

from apolar.reports.of_model import report
from apolar.reports.page import Provenance, report_page

__all__ = ["Provenance", "report", "report_page"]
