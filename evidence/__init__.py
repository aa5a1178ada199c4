"""How accurate this project is: studies that measure, the artefacts they leave, their pages."""
