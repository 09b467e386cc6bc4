"""The translation unit MLX would compile for a kernel: generated signatures around the body, one instantiation each."""

import itertools
import re

ELEMENTS = {"float32": "float", "float16": "float16_t", "bfloat16": "bfloat16_t", "uint32": "uint32_t", "int32": "int32_t"}

UINT_ATTRIBUTES = """
dispatch_quadgroups_per_threadgroup dispatch_simdgroups_per_threadgroup quadgroup_index_in_threadgroup
quadgroups_per_threadgroup simdgroup_index_in_threadgroup simdgroups_per_threadgroup thread_execution_width
thread_index_in_quadgroup thread_index_in_simdgroup thread_index_in_threadgroup threads_per_simdgroup
""".split()
UINT3_ATTRIBUTES = """
dispatch_threads_per_threadgroup grid_origin grid_size thread_position_in_grid thread_position_in_threadgroup
threadgroup_position_in_grid threadgroups_per_grid threads_per_grid threads_per_threadgroup
""".split()

# C++ wants `static` before a local with an address space, where Metal has threadgroup arrays at function scope.
THREADGROUP_ARRAY = re.compile(r"^(\s*)threadgroup(?= [^*&(\n]*\[)", re.MULTILINE)


def translated(text):
    """The text as clang's C++ front end takes it; line numbers do not change."""
    return THREADGROUP_ARRAY.sub(r"\1static threadgroup", text)


def unit(kernel):
    """One source that holds the kernel under every signature and every combination of template values."""
    lines = ["#include <metal_stdlib>", *(f'#include "{header}"' for header in kernel.headers)]
    functions = {}
    for values in kernel.combinations():
        dtypes = {name: value for name, value in values.items() if isinstance(value, str)}
        for spaces in _spaces(kernel):
            key = (tuple(dtypes.items()), spaces)
            if key not in functions:
                functions[key] = f"custom_kernel_{kernel.name}_{len(functions)}"
                lines += _definition(kernel, functions[key], dtypes, spaces)
            instance = f"{functions[key]}<{', '.join(_argument(value) for value in values.values())}>"
            lines.append(f"template decltype({instance}) {instance};" if values else "")
    return "\n".join(lines) + "\n"


def _spaces(kernel):
    """Address spaces of the inputs: MLX passes arrays of fewer than eight elements in constant memory."""
    return itertools.product(*(("device", "constant") if entry.get("small") else ("device",) for entry in kernel.inputs))


def _definition(kernel, function, dtypes, spaces):
    parameters = []
    for entry, space in zip(kernel.inputs, spaces):
        name = entry["name"]
        parameters.append(f"const {space} {_element(entry, dtypes)}* {name}")
        if f"{name}_shape" in kernel.body:
            parameters.append(f"const constant int* {name}_shape")
        if f"{name}_strides" in kernel.body:
            parameters.append(f"const constant int64_t* {name}_strides")
        if f"{name}_ndim" in kernel.body:
            parameters.append(f"const constant int& {name}_ndim")
    parameters += [f"device {_element(entry, dtypes)}* {entry['name']}" for entry in kernel.outputs]
    parameters += [f"uint {name}" for name in UINT_ATTRIBUTES if name in kernel.body]
    parameters += [f"uint3 {name}" for name in UINT3_ATTRIBUTES if name in kernel.body]
    template = ", ".join(f"typename {name}" if name in dtypes else f"int {name}" for name in kernel.template)
    header = [f"template <{template}>"] if kernel.template else []
    return [*header, f"void {function}({', '.join(parameters)}) {{", f'#include "{kernel.body_path}"', "}"]


def _element(entry, dtypes):
    return ELEMENTS[dtypes.get(entry["dtype"], entry["dtype"])]


def _argument(value):
    return ELEMENTS[value] if isinstance(value, str) else str(value)
