"""The page on the clusters of a table."""

from apolar.reports.page import Provenance, report_page
from apolar.reports.report import report

__all__ = ["Provenance", "report", "report_page"]
