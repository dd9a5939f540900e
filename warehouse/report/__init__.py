"""The report of a results folder: one self-contained HTML page."""

from cachemend.warehouse.report.page import write_report

__all__ = ["write_report"]
