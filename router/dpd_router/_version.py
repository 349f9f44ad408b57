"""The version of the router; one place for the package, the image and the metric."""

__version__ = "0.1.0"
