"""The emulated SDK's headers against a transcription of what is publicly known of the vendor's.

public_interface.tsv was written from the public sources and not from the headers, so that a misreading must happen
twice to stay unseen. The headers are read by the compiler: each line becomes an assertion in a small C++ file.
"""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.native.emulated_client import PROJECT, compile_cxx, sdk_root


class Line(NamedTuple):
    kind: str
    name: str
    value: str
    evidence: str
    source: str


with (PROJECT / "public_interface.tsv").open(encoding="utf-8") as _file:
    LINES = [Line(**row) for row in csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE)]

_SIGNATURE = re.compile(r"(.+?)\((.*)\)")


def of_kind(*kinds: str) -> list[Line]:
    return [line for line in LINES if line.kind in kinds]


def parameters(signature: str) -> tuple[str, list[tuple[str, str | None]]]:
    """Result type, and (type, default or None) of each parameter."""
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    found = []
    for parameter in match[2].split(", ") if match[2] else []:
        kind, _, default = parameter.partition(" = ")
        found.append((kind, default or None))
    return match[1], found


def assertions() -> list[str]:
    """One C++ statement per line of the transcription."""
    made = []
    for line in LINES:
        if line.kind in ("function", "cuda-function"):
            result, wanted = parameters(line.value)
            types = ", ".join(kind for kind, _ in wanted)
            made.append(f"static_assert(std::is_same_v<decltype(&{line.name}), {result} (*)({types})>);")
            if any(default for _, default in wanted):
                needed = ", ".join(f"std::declval<{kind}>()" for kind, default in wanted if default is None)
                made.append(f"static_assert(std::is_same_v<decltype({line.name}({needed})), {result}>);")
        elif line.kind == "operator":
            made.append(
                f"static_assert(std::is_same_v<decltype(&xdnn_pytorch::{line.name}), int (*)(Context*, {line.value})>);"
            )
        elif line.kind == "type":
            made.append(f"static_assert(std::is_same_v<{line.name}, {line.value}>);")
        elif line.kind in ("enumerator", "constant", "cuda-enumerator"):
            made.append(f"static_assert(static_cast<long>({line.name}) == {line.value});")
        else:
            assert line.kind == "error-text", line
    return made


def test_headers_declare_what_is_publicly_known(tmp_path: Path) -> None:
    source = tmp_path / "interface.cc"
    lines = [
        "#include <type_traits>",
        "#include <utility>",
        "#include <cuda_runtime.h>",
        "#include <xdnn_pytorch/xdnn_pytorch.h>",
        "#include <xpu/runtime.h>",
        "using namespace xdnn_pytorch;",
        *assertions(),
    ]
    source.write_text("\n".join(lines) + "\n")
    compile_cxx(source, tmp_path / "interface.o", "-c", "-Werror")


def test_error_texts_are_the_vendors_for_both_signs(tmp_path: Path) -> None:
    source = tmp_path / "texts.cc"
    source.write_text(
        "#include <cstdio>\n#include <cstdlib>\n#include <xpu/runtime.h>\n"
        "int main(int argc, char** argv) {\n"
        "    for (int i = 1; i < argc; ++i) std::puts(xpu_strerror(std::atoi(argv[i])));\n"
        "}\n"
    )
    compile_cxx(source, tmp_path / "texts")
    codes = {line.name: int(line.value) for line in of_kind("enumerator")}
    wanted = of_kind("error-text")
    for sign in (1, -1):
        numbers = [str(sign * codes[line.name]) for line in wanted]
        said = subprocess.run(
            [tmp_path / "texts", *numbers, str(sign * 2), str(sign * 999)], capture_output=True, text=True
        )
        assert said.stdout.splitlines() == [
            *(line.value for line in wanted),
            "No such file or directory",
            "Unknown error",
        ]


def test_value_types_serve_public_clients(tmp_path: Path) -> None:
    # What public clients write: braces for a tensor, numbers through create, a plain type where one is optional.
    source = tmp_path / "client.cc"
    source.write_text("""
        #include <xdnn_pytorch/xdnn_pytorch.h>
        int main() {
            xdnn_pytorch::Tensor absent = {{0}, {0}, xdnn_pytorch::ScalarType::kfloat32, (void*)nullptr};
            std::vector<xdnn_pytorch::Tensor> list(3);
            xdnn_pytorch::Scalar number = xdnn_pytorch::Scalar({});
            number = xdnn_pytorch::Scalar::create(int64_t{3});
            number = xdnn_pytorch::Scalar::create(2.5f);
            xdnn_pytorch::optional<xdnn_pytorch::StringView> mode;
            mode = xdnn_pytorch::StringView("floor");
            xdnn_pytorch::Generator generator;
            xdnn_pytorch::optional<xdnn_pytorch::Device> device;
            int (*call)(xdnn::Context*) = [](xdnn::Context* ctx) {
                xdnn_pytorch::Tensor t;
                ctx->xpu_stream = nullptr;
                ctx->set_stream(nullptr);
                bool known = ctx->dev().type() == xdnn::kXPU3 || ctx->dev().type() == xdnn::kCPU;
                return xdnn_pytorch::sum(ctx, t, t.type, t) + xdnn_pytorch::sum(ctx, t, {}, t) + known +
                       xdnn_pytorch::div_tensor_mode(ctx, t, t, xdnn_pytorch::optional<xdnn_pytorch::StringView>(), t);
            };
            xdnn_pytorch::ScalarType types[] = {
                xdnn_pytorch::ScalarType::kbool, xdnn_pytorch::ScalarType::kuint8, xdnn_pytorch::ScalarType::kint8,
                xdnn_pytorch::ScalarType::kint16, xdnn_pytorch::ScalarType::kint32, xdnn_pytorch::ScalarType::kint64,
                xdnn_pytorch::ScalarType::kfloat32, xdnn_pytorch::ScalarType::kfloat16,
                xdnn_pytorch::ScalarType::kbfloat16, xdnn_pytorch::ScalarType::kfloat64,
                xdnn_pytorch::ScalarType::UnknownScalarType};
            return call == nullptr || absent.ptr<float>() != nullptr || types[0] == types[1] || list.size() != 3;
        }
    """)
    compile_cxx(source, tmp_path / "client.o", "-c", "-Werror", "-Wno-unused")


@pytest.mark.parametrize(
    ("header", "kind", "pattern"),
    [
        ("xpu/include/xpu/runtime.h", "function", r"\bint (xpu_\w+)\("),
        ("xpu/include/cuda_runtime.h", "cuda-function", r"\b(cuda[A-Z]\w+)\("),
        ("site-packages/torch_xmlir/include/xdnn_pytorch/xdnn_pytorch.h", "operator", r"^int (\w+)\("),
    ],
)
def test_headers_declare_nothing_else(header: str, kind: str, pattern: str) -> None:
    text = (sdk_root() / header).read_text()
    code = re.sub(r"//.*|/\*.*?\*/", "", text)
    assert set(re.findall(pattern, code, re.MULTILINE)) == {line.name for line in of_kind(kind)}


def test_headers_number_nothing_else() -> None:
    code = re.sub(r"//.*", "", (sdk_root() / "xpu/include/xpu/defs.h").read_text())
    declared = set(re.findall(r"^\s+(\w+) = \d+,", code, re.MULTILINE))
    assert declared == {line.name for line in of_kind("enumerator") if "::" not in line.name}


def test_every_line_names_its_source() -> None:
    readme = (PROJECT / "README.md").read_text()
    assert {line.evidence for line in LINES} <= {"P800", "KL2", "KL3", "CUDA", "INF"}
    for line in LINES:
        for source in re.split(r"[,;] ", line.source):
            known = source.split(" has ")[0]
            if "inferred" not in known and known != "naming rule" and "mangled" not in known:
                assert f"| {known} |" in readme, f"{line.name}: {known} is not explained in README.md"
