"""Plans with symbol edges, carried out by the real loader in a child: what was refused before loads after."""

from __future__ import annotations

import json
from pathlib import Path

from tests import child
from tests.elfkit import make_so
from torch_fl._preload import elf, host, plan, resolve, symbol_edges

CARRY_OUT = """
import json, os, sys
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import load, plan
steps = [plan.Step(*fields) for fields in json.loads(sys.argv[1])]
opened, refused = load.open_in_order(steps)
print(json.dumps([[entry._asdict() for entry in opened], refused]))
"""


def planned(*paths: Path) -> plan.Plan:
    """A plan that opens these files in this order, all of them local."""
    steps = tuple(plan.Step(path.name, str(path), None, elf.read(str(path)).soname, False) for path in paths)
    return plan.Plan(steps, (), (), None, None, (), (), ())


def extended(made: plan.Plan) -> plan.Plan:
    return symbol_edges.with_symbol_edges(made, resolve.fresh(host.current().replace(mapped=())))


def carried_out(made: plan.Plan) -> tuple[list[dict[str, object]], list[str] | None]:
    opened, refused = json.loads(child.run(CARRY_OUT, args=(json.dumps(made.steps),)).check().stdout)
    return opened, refused


def order(made: plan.Plan) -> list[tuple[str, bool]]:
    return [(step.soname, step.is_global) for step in made.steps]


def so(directory: Path, soname: str, defines: str = "", uses: str = "", needed: tuple[Path, ...] = ()) -> Path:
    source = "".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in defines.split())
    source += "".join(f"int {name}(void); int use_{name}(void) {{ return {name}(); }}\n" for name in uses.split())
    return make_so(
        directory / soname, soname=soname, source=source, needed=[path.name for path in needed], runpath="$ORIGIN"
    )


def test_the_provider_comes_first_and_global_and_nothing_else_is(tmp_path: Path) -> None:
    user, provider = so(tmp_path, "liba.so", uses="f"), so(tmp_path, "libc1.so", "f")
    made = planned(user, so(tmp_path, "libb.so"), provider)
    opened, refused = carried_out(made)
    assert refused == ["liba.so", str(user), f"{user}: undefined symbol: f"]
    assert opened == []
    better = extended(made)
    assert order(better) == [("libc1.so", True), ("liba.so", False), ("libb.so", False)]
    assert better.edges == (plan.SymbolEdge(str(user), ("f",), str(provider)),)
    opened, refused = carried_out(better)
    assert refused is None
    assert [entry["soname"] for entry in opened] == ["libc1.so", "liba.so", "libb.so"]


def test_a_plan_without_hidden_needs_is_returned_as_it_is(tmp_path: Path) -> None:
    provider = so(tmp_path, "libp.so", "f")
    made = planned(provider, so(tmp_path, "libu.so", uses="f", needed=(provider,)))
    assert extended(made) is made
    assert carried_out(made)[1] is None


def test_a_chain_of_hidden_needs_is_followed_to_its_end(tmp_path: Path) -> None:
    paths = [so(tmp_path, f"lib{n}.so", f"f{n}", f"f{n + 1}" if n < 4 else "") for n in range(5)]
    better = extended(planned(*paths))
    assert order(better) == [(f"lib{n}.so", n > 0) for n in (4, 3, 2, 1, 0)]
    assert carried_out(better)[1] is None


def test_a_provider_beside_the_planned_files_is_taken_with_what_it_needs(tmp_path: Path) -> None:
    below = so(tmp_path, "libbelow.so", "g")
    provider = so(tmp_path, "libprovider.so", "f", needed=(below,))
    better = extended(planned(so(tmp_path, "libuser.so", uses="f")))
    assert order(better) == [("libbelow.so", False), ("libprovider.so", True), ("libuser.so", False)]
    assert better.edges[0].provider == str(provider)
    assert carried_out(better)[1] is None


def test_a_library_that_uses_what_needs_it_comes_in_with_it(tmp_path: Path) -> None:
    base = so(tmp_path, "libbase.so", uses="f")
    top = so(tmp_path, "libtop.so", "f", needed=(base,))
    made = planned(base, top)
    assert carried_out(made)[1] is not None
    better = extended(made)
    assert order(better) == [("libtop.so", True), ("libbase.so", False)]
    assert carried_out(better)[1] is None


def test_two_files_that_use_each_other_undeclared_stay_refused(tmp_path: Path) -> None:
    one, two = so(tmp_path, "libone.so", "f", "g"), so(tmp_path, "libtwo.so", "g", "f")
    better = extended(planned(one, two))
    assert carried_out(better)[1] is not None


def test_a_hidden_symbol_or_another_version_is_no_provider(tmp_path: Path) -> None:
    user = so(tmp_path, "libu.so", uses="f")
    make_so(
        tmp_path / "libhidden.so",
        soname="libhidden.so",
        source='__attribute__((visibility("hidden"))) int f(void) { return 1; }',
    )
    (tmp_path / "not-a-library.so").write_text("GROUP ( libu.so )")
    assert extended(planned(user)).edges == ()


def test_the_answer_does_not_depend_on_the_order_of_equal_steps(tmp_path: Path) -> None:
    paths = [so(tmp_path, "libp.so", "f"), so(tmp_path, "libq.so", "f"), so(tmp_path, "libu.so", uses="f")]
    for _ in range(3):
        assert extended(planned(paths[2], paths[1], paths[0])).edges[0].provider == str(paths[1])


# --- the audit -------------------------------------------------------------------------------------------------------


def test_the_audit_says_what_was_there_before_and_what_answers_to_its_name(tmp_path: Path) -> None:
    below = so(tmp_path, "libbelow.so", "g")
    above = so(tmp_path, "libabove.so", needed=(below,))
    nameless = make_so(tmp_path / "libnameless.so", source="int h(void) { return 1; }")
    link = tmp_path / "farm" / "liblinked.so"
    link.parent.mkdir()
    link.symlink_to(so(tmp_path, "liblinked.so"))
    opened, refused = carried_out(planned(above, below, nameless, link))
    assert refused is None
    assert [(e["soname"], e["before"], e["answers"]) for e in opened] == [
        ("libabove.so", False, True),
        ("libbelow.so", True, True),
        ("libnameless.so", False, False),
        ("liblinked.so", False, True),
    ]
    for entry in opened:
        status = Path(str(entry["path"])).stat()
        assert entry["inode"] == [status.st_dev, status.st_ino]
    assert [opened[1]["mapped"], opened[3]["mapped"]] == [str(below), str(link)]
