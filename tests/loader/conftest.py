"""Importing torch_fl opens the vendor's libraries; the model's tests must do without them in this process."""

import os

os.environ["FLAGOS_LOAD"] = "0"
