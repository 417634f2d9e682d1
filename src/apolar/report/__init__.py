"""The page that tells what was found in a table."""

from apolar.report.page import Provenance, report_page

__all__ = ["Provenance", "report_page"]
