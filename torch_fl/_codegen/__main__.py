"""python -m torch_fl._codegen [--check]"""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from . import coverage, generate


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """0 when every file is up to date or was written, 1 when --check found one that is not."""
    parser = argparse.ArgumentParser(prog="python -m torch_fl._codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    check = parser.parse_args(arguments).check
    wanted = generate.files(coverage.covered(), coverage.torch_version())
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        name = path.relative_to(generate.ROOT)
        if check:
            print(f"{name} is not what the operator table gives; run `make generate`", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
