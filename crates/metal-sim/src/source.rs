//! The translation unit: the dialect, the kernel's header, its function, and the exported entry.

use crate::{
    KernelSource, Launch, SimError, abi, constants, declarations,
    signature::{self, Signature},
};

/// The dialect's files, in the order in which each builds on the ones before.
const DIALECT: &[(&str, &str)] = &[
    ("scalar.h", include_str!("../dialect/scalar.h")),
    ("vector.h", include_str!("../dialect/vector.h")),
    ("math.h", include_str!("../dialect/math.h")),
    ("group.h", include_str!("../dialect/group.h")),
    ("simd.h", include_str!("../dialect/simd.h")),
    ("matrix.h", include_str!("../dialect/matrix.h")),
    ("library.h", include_str!("../dialect/library.h")),
    ("words.h", include_str!("../dialect/words.h")),
];

/// The text before every kernel.
pub fn prelude() -> String {
    let part = |(name, text): &(&str, &str)| format!("#line 1 \"metal-sim/{name}\"\n{text}\n");
    DIALECT.iter().map(part).collect()
}

/// What is generated for one kernel and the types of one launch.
pub struct Generated {
    pub signature: Signature,
    /// The translation unit after the prelude.
    pub text: String,
    /// Names of the body's threadgroup variables, by slot.
    pub shared_names: Vec<String>,
}

/// Generates the part of the translation unit that is the kernel's own.
pub fn generate(kernel: &KernelSource, launch: &Launch<'_>) -> Result<Generated, SimError> {
    let signature = signature::generate(kernel, launch)?;
    let rewritten = declarations::rewrite(&kernel.header, &constants::translate(&kernel.body))
        .map_err(|problem| SimError::Declaration {
            kernel: kernel.name.clone(),
            line: problem.line,
            problem: problem.text,
        })?;
    let Signature {
        template_line,
        template_values,
        parameters,
        arguments,
        ..
    } = &signature;
    let (parameters, arguments) = (parameters.join(", "), arguments.join(",\n        "));
    let body = &rewritten.text;
    let (name, header) = (&kernel.name, constants::translate(&kernel.header));
    let (entry, current) = (abi::ENTRY_NAME, abi::CURRENT_NAME);
    let text = format!(
        "#line 1 \"header\"\n{header}\n\
         #line 1 \"generated\"\n{template_line}\n\
         inline void custom_kernel_{name}({parameters}) {{\n\
         #line 1 \"body\"\n{body}\n\
         #line 1 \"generated\"\n}}\n\
         #define METAL_SIM_EXPORT extern \"C\" __attribute__((visibility(\"default\")))\n\
         METAL_SIM_EXPORT metal_sim::lane** {current}() {{ return &metal_sim::current; }}\n\
         METAL_SIM_EXPORT void {entry}(void* const* buffers, metal_sim::lane* self) {{\n\
         \x20   const metal_sim::group& group = *self->in_group;\n\
         \x20   custom_kernel_{name}{template_values}(\n        {arguments});\n\
         }}\n"
    );
    Ok(Generated {
        signature,
        text,
        shared_names: rewritten.names,
    })
}
