"""Passes over graphs."""

from taper.fx.passes import shape_prop  # noqa: F401
