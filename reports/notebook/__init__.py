"""Results in notebooks: as data frames, as small HTML, as figures."""
