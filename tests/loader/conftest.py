"""These tests load nothing native."""

import tests.without_loading  # noqa: F401
