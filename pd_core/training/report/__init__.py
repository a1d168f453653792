"""Reports about trainings: event files as one HTML page."""

from .page import write_report
