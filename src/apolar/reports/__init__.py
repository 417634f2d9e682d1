"""The page on the clusters of a table."""

from apolar.reports.page import report, report_page
from apolar.reports.text import Provenance

__all__ = ["Provenance", "report", "report_page"]
