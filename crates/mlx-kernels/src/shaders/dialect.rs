//! The rewriting that makes a Metal body a CUDA one.
//!
//! Nearly everything is macros and definitions in `kernels/dialect/cuda.h`. One word needs its
//! place: in Metal both shared memory and pointers to it are `threadgroup`, in CUDA only the memory
//! is `__shared__`, and pointers to it are plain. A line that begins with `threadgroup` and declares
//! an array (a `[` before any `*`, `&` or `(`) declares memory; there the word is replaced. Tables
//! in constant memory, at file scope in headers, become `__constant__` by the same rule.

use super::source_file;

const VOCABULARY: super::SourceFile = source_file!("dialect/cuda.h");

/// A header for CUDA: the vocabulary, then `header` in the namespace where the vocabulary is and
/// where MLX opens the kernel.
pub(super) fn cuda_header(header: &str) -> String {
    format!(
        "{}\nnamespace mlx::core::cu {{\n{}}}\n",
        VOCABULARY.text,
        cuda_body(header)
    )
}

/// A body, or any other text, for CUDA. Line numbers stay.
pub(super) fn cuda_body(body: &str) -> String {
    body.split_inclusive('\n').map(cuda_line).collect()
}

fn cuda_line(line: &str) -> String {
    for (metal, cuda) in [
        ("threadgroup ", "__shared__ "),
        ("constant ", "__constant__ "),
    ] {
        let indent = line.len() - line.trim_start().len();
        if let Some(declared) = line[indent..].strip_prefix(metal)
            && declared
                .find(['[', '*', '&', '('])
                .is_some_and(|at| declared.as_bytes()[at] == b'[')
        {
            return format!("{}{cuda}{declared}", &line[..indent]);
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::cuda_body;

    #[test]
    fn declarations_of_memory_become_shared() {
        assert_eq!(
            cuda_body("threadgroup float a[4];\n"),
            "__shared__ float a[4];\n"
        );
        assert_eq!(
            cuda_body("  threadgroup uint ids[N * (M + 1)];"),
            "  __shared__ uint ids[N * (M + 1)];"
        );
        assert_eq!(
            cuda_body("constant float table[2] = {1.0f, 2.0f};"),
            "__constant__ float table[2] = {1.0f, 2.0f};"
        );
    }

    #[test]
    fn pointers_and_other_words_stay() {
        for same in [
            "threadgroup float* p = partials;\n",
            "threadgroup float& first = partials[0];\n",
            "threadgroup_barrier(mem_flags::mem_threadgroup);\n",
            "const uint tile = threadgroup_position_in_grid.x;\n",
            "void f(threadgroup float* p);\nfloat x;\n",
        ] {
            assert_eq!(cuda_body(same), same);
        }
    }
}
