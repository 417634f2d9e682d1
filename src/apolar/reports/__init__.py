"""The page on the clusters of a table."""

from apolar.reports.page import Provenance, report, report_page

__all__ = ["Provenance", "report", "report_page"]
