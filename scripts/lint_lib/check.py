"""Parses a kernel and says what Metal, or this project's rules for shaders, would not accept."""

import re
from pathlib import Path

from clang import cindex

import source
from registry import KERNELS

VOCABULARY = Path(__file__).resolve().parent / "metal"

OPTIONS = [
    "-x", "c++", "-std=c++17", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-fno-exceptions", "-fno-rtti",
    "-ffreestanding", "-ferror-limit=0", "-Wno-everything", "-Wconversion", "-Wsign-conversion", "-Wsign-compare", "-Wdouble-promotion",
    "-Wuninitialized", "-Wsometimes-uninitialized", "-Wreturn-type", "-Wundefined-inline", "-Wshift-count-overflow",
    "-Wshift-count-negative", "-Wpointer-arith", "-Warray-bounds", "-Wduplicate-decl-specifier",
    "-I", str(VOCABULARY), "-I", str(KERNELS),
]  # fmt: skip

SPACES = {"device", "constant", "threadgroup", "thread"}
FLOAT_LITERAL = re.compile(r"^(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?$")
POINTERS = {cindex.TypeKind.POINTER, cindex.TypeKind.LVALUEREFERENCE}
DECLARATIONS = {cindex.CursorKind.VAR_DECL, cindex.CursorKind.PARM_DECL, cindex.CursorKind.FIELD_DECL}


def check(kernel):
    """Every finding on a kernel, as (path below kernels/, line, message), each once and in order."""
    texts = {str(KERNELS / path): source.translated(text) for path, text in kernel.texts.items()}
    unsaved = list(texts.items())
    main = str(KERNELS / f"{kernel.name}.generated.cpp")
    unsaved.append((main, source.unit(kernel)))
    unit = cindex.Index.create().parse(main, args=OPTIONS, unsaved_files=unsaved)
    findings = {finding for diagnostic in unit.diagnostics for finding in _diagnosed(diagnostic)}
    findings |= set(_pointers(unit.cursor, texts))
    for path, text in kernel.texts.items():
        findings |= set(_tokens(unit, path, text))
    return sorted(findings)


def _diagnosed(diagnostic):
    if diagnostic.severity < cindex.Diagnostic.Warning:
        return
    # Widening half to float is exact and meant; only a step up to double is a mistake.
    if diagnostic.option == "-Wdouble-promotion" and "to 'double'" not in diagnostic.spelling:
        return
    yield (*_place(diagnostic.location), diagnostic.spelling)


def _place(location):
    if location.file is None:
        return ("?", 0)
    path = Path(location.file.name)
    return (str(path.relative_to(KERNELS)) if path.is_relative_to(KERNELS) else path.name, location.line)


def _pointers(cursor, texts):
    """Where C++ is laxer than Metal: a declaration that names no address space, a cast that drops one."""
    for child in cursor.get_children():
        file = child.location.file
        if file is None or Path(file.name).is_relative_to(VOCABULARY):
            continue
        if child.kind in DECLARATIONS and child.type.kind in POINTERS and file.name in texts:
            words = re.findall(r"\w+", _type_text(texts[file.name], child.location.offset))
            if not SPACES.union({"auto"}).intersection(words):
                yield (*_place(child.location), f"pointer or reference '{child.spelling}' names no address space")
        if child.kind == cindex.CursorKind.CSTYLE_CAST_EXPR and child.type.kind == cindex.TypeKind.POINTER:
            yield (*_place(child.location), "C-style pointer cast: it can change the address space; use reinterpret_cast")
        yield from _pointers(child, texts)


def _type_text(text, name):
    """What stands between the start of a declaration and its name. (A cursor's own range leaves out empty macros.)"""
    depth = 0
    for start in range(name - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(text[start], 0)
        if depth == 0 and text[start] in "(,;{}":
            return text[start + 1 : name]
    return text[:name]


def _tokens(unit, path, text):
    """What the type checker lets pass: double by name or by literal, and text MLX cannot hand over."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.isascii():
            yield (path, number, "character outside ASCII")
    file = unit.get_file(str(KERNELS / path))
    extent = cindex.SourceRange.from_locations(
        cindex.SourceLocation.from_position(unit, file, 1, 1),
        cindex.SourceLocation.from_position(unit, file, len(text.splitlines()) + 1, 1),
    )
    for token in unit.get_tokens(extent=extent):
        if token.spelling in ("double", "long double"):
            yield (path, token.location.line, "Metal has no double")
        elif token.kind == cindex.TokenKind.LITERAL and FLOAT_LITERAL.match(token.spelling):
            yield (path, token.location.line, f"literal {token.spelling} has no f or h suffix")
