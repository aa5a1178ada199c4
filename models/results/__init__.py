"""Points and series that answers consist of, intervals, and what must hold of every answer."""
