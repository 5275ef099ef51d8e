"""These tests load nothing native in their own process."""

import tests.without_loading  # noqa: F401
