"""Plants one fault of each kind in a registered shader and sees that the lint names its line."""

import copy

import check

# (kernel, file, text that is there, faulty text, part of the expected finding)
FAULTS = [
    ("affine_split_mma", "affine/split_mma.metal", "const device T* x0", "const T* x0", "cannot initialize"),
    ("affine_split_mma", "affine/split_mma.metal", "const device T* x0", "const threadgroup T* x0", "cannot initialize"),
    ("affine_rows", "affine/codes.h", "(const device uint* row_words, int k, thread uint* words)",
     "(const device uint* row_words, int k, uint* words)", "names no address space"),
    ("affine_rows", "affine/codes.h", "reinterpret_cast<const device ushort*>", "reinterpret_cast<const constant ushort*>",
     "reinterpret_cast"),
    ("normalized_argmax_final", "sampling/normalized_argmax_final.metal", "better(best, candidate(scores[entry], ids[entry]))",
     "better(best, candidate(*(const device float*)(scores + entry), ids[entry]))", "C-style"),
    ("affine_mma", "affine/mma.metal", "= T(sums[block].thread_elements()[c])", "= sums[block].thread_elements()[c]",
     "loses floating-point precision"),
    ("affine_rows", "affine/rows.metal", "const int lane = int(thread_index_in_simdgroup);",
     "const ushort lane = thread_index_in_simdgroup;", "loses integer precision"),
    ("add_rms_norm", "norm/add_rms_norm.metal", "float squares = 0.0f;", "double squares = 0.0f;", "no double"),
    ("add_rms_norm", "norm/add_rms_norm.metal", "float squares = 0.0f;", "float squares = 0.0;", "suffix"),
    ("add_rms_norm", "norm/add_rms_norm.metal", "simd_sum(squares)", "simd_total(squares)", "undeclared"),
    ("token_bitmask", "sampling/token_bitmask.metal", "thread_position_in_grid.x", "thread_position_in_the_grid.x", "undeclared"),
    ("token_bitmask", "sampling/token_bitmask.metal", "a real addition", "a \u201creal\u201d addition", "ASCII"),
]  # fmt: skip


def run(kernels):
    """Returns the faults that went unnoticed, as texts."""
    by_name = {kernel.name: kernel for kernel in kernels}
    missed = []
    for name, path, there, faulty, expected in FAULTS:
        broken = copy.copy(by_name[name])
        text = broken.texts[path]
        if text.count(there) == 0:
            missed.append(f"{path}: the text to break is not there: {there}")
            continue
        broken.texts = {**broken.texts, path: text.replace(there, faulty, 1)}
        line = text[: text.index(there)].count("\n") + 1
        findings = check.check(broken)
        if not any(found == path and at == line and expected in message for found, at, message in findings):
            missed.append(f"{path}:{line}: {faulty!r} should have been reported ({expected}); found {findings[:3]}")
    return missed
