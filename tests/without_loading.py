"""Imports torch_fl without loading anything native, for tests of its pure-Python part.

Their process must stay able to say what a fresh one would do: nothing in it opens a library under test. The variable
is gone again afterwards, so that children start as a user's process would.
"""

import os

os.environ["FLAGOS_LOAD"] = "0"
import torch_fl  # noqa: F401

del os.environ["FLAGOS_LOAD"]
