"""What leaves a report as files: pages, papers, figures and data."""
