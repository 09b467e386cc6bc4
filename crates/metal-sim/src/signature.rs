//! The generated function signature: buffers in order, shapes and attributes by mention.

use std::fmt::Write as _;

use crate::{KernelSource, Launch, SimError, TemplateArg, kernel::MAX_BUFFERS};

/// An array with fewer elements than this is passed in constant memory.
const SMALL: usize = 8;

/// Metal's attributes: name, type, and how the dialect computes it from the lane `self`.
const ATTRIBUTES: &[(&str, &str, &str)] = &[
    (
        "dispatch_quadgroups_per_threadgroup",
        "uint",
        "metal_sim::blocks(metal_sim::product(group.requested), 4)",
    ),
    (
        "dispatch_simdgroups_per_threadgroup",
        "uint",
        "metal_sim::blocks(metal_sim::product(group.requested), 32)",
    ),
    (
        "dispatch_threads_per_threadgroup",
        "uint3",
        "metal_sim::triple(group.requested)",
    ),
    ("grid_origin", "uint3", "uint3(0)"),
    ("grid_size", "uint3", "metal_sim::triple(group.grid)"),
    ("quadgroup_index_in_threadgroup", "uint", "self->index / 4"),
    (
        "quadgroups_per_threadgroup",
        "uint",
        "metal_sim::blocks(metal_sim::product(group.size), 4)",
    ),
    ("simdgroup_index_in_threadgroup", "uint", "self->index / 32"),
    (
        "simdgroups_per_threadgroup",
        "uint",
        "metal_sim::blocks(metal_sim::product(group.size), 32)",
    ),
    ("thread_execution_width", "uint", "32u"),
    ("thread_index_in_quadgroup", "uint", "self->index % 4"),
    ("thread_index_in_simdgroup", "uint", "self->index % 32"),
    ("thread_index_in_threadgroup", "uint", "self->index"),
    (
        "thread_position_in_grid",
        "uint3",
        "metal_sim::triple(group.position) * metal_sim::triple(group.requested) + metal_sim::triple(self->position)",
    ),
    (
        "thread_position_in_threadgroup",
        "uint3",
        "metal_sim::triple(self->position)",
    ),
    (
        "threadgroup_position_in_grid",
        "uint3",
        "metal_sim::triple(group.position)",
    ),
    (
        "threadgroups_per_grid",
        "uint3",
        "metal_sim::triple(group.groups)",
    ),
    ("threads_per_grid", "uint3", "metal_sim::triple(group.grid)"),
    ("threads_per_simdgroup", "uint", "32u"),
    (
        "threads_per_threadgroup",
        "uint3",
        "metal_sim::triple(group.size)",
    ),
];

/// One buffer of the signature, in binding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The elements of input `0`.
    Input(usize),
    /// Its shape, as `int`s.
    Shape(usize),
    /// Its strides, as 64-bit integers.
    Strides(usize),
    /// Its rank, as an `int`.
    Rank(usize),
    /// The elements of output `0`.
    Output(usize),
}

/// The signature's parts, as source text, and its buffers.
pub struct Signature {
    pub bindings: Vec<Binding>,
    /// `template <...>`, or nothing.
    pub template_line: String,
    /// Template arguments of the instantiation with their angle brackets, or nothing.
    pub template_values: String,
    /// One parameter declaration each.
    pub parameters: Vec<String>,
    /// The value the entry function passes for each.
    pub arguments: Vec<String>,
}

/// Generates the signature of `kernel` for the arrays of `launch`.
pub fn generate(kernel: &KernelSource, launch: &Launch<'_>) -> Result<Signature, SimError> {
    let (template_line, template_values) = template(launch.template);
    let mut signature = Signature {
        bindings: Vec::new(),
        template_line,
        template_values,
        parameters: Vec::new(),
        arguments: Vec::new(),
    };
    for (i, (name, input)) in kernel.input_names.iter().zip(launch.inputs).enumerate() {
        let element = input.dtype.metal_name();
        let space = if input.elements() < SMALL {
            "constant"
        } else {
            "device"
        };
        let scalar = input.shape.is_empty();
        signature.bind(
            Binding::Input(i),
            &format!("const {space} {element}"),
            scalar,
            name,
        );
        let mentions = |what: &str| !scalar && kernel.body.contains(&format!("{name}_{what}"));
        if mentions("shape") {
            signature.bind(
                Binding::Shape(i),
                "const constant int",
                false,
                &format!("{name}_shape"),
            );
        }
        if mentions("strides") {
            signature.bind(
                Binding::Strides(i),
                "const constant int64_t",
                false,
                &format!("{name}_strides"),
            );
        }
        if mentions("ndim") {
            signature.bind(
                Binding::Rank(i),
                "const constant int",
                true,
                &format!("{name}_ndim"),
            );
        }
    }
    for (i, (name, output)) in kernel.output_names.iter().zip(launch.outputs).enumerate() {
        signature.bind(
            Binding::Output(i),
            &format!("device {}", output.dtype.metal_name()),
            false,
            name,
        );
    }
    for &(name, kind, value) in ATTRIBUTES
        .iter()
        .filter(|(name, ..)| kernel.body.contains(name))
    {
        signature.parameters.push(format!("{kind} {name}"));
        signature.arguments.push(value.to_owned());
    }
    if signature.bindings.len() > MAX_BUFFERS {
        return Err(SimError::Buffers {
            kernel: kernel.name.clone(),
            found: signature.bindings.len(),
            limit: MAX_BUFFERS,
        });
    }
    Ok(signature)
}

impl Signature {
    fn bind(&mut self, binding: Binding, element: &str, by_reference: bool, name: &str) {
        let slot = self.bindings.len();
        let (mark, dereference) = if by_reference { ("&", "*") } else { ("*", "") };
        self.parameters.push(format!("{element}{mark} {name}"));
        self.arguments.push(format!(
            "{dereference}static_cast<{element}*>(buffers[{slot}])"
        ));
        self.bindings.push(binding);
    }
}

fn template(arguments: &[(&str, TemplateArg)]) -> (String, String) {
    if arguments.is_empty() {
        return (String::new(), String::new());
    }
    let (mut line, mut values) = (String::new(), String::new());
    for (i, (name, argument)) in arguments.iter().enumerate() {
        let separator = if i == 0 { "" } else { ", " };
        let (kind, value) = match argument {
            TemplateArg::Int(value) => ("int", value.to_string()),
            TemplateArg::Bool(value) => ("bool", value.to_string()),
            TemplateArg::DType(dtype) => ("typename", dtype.metal_name().to_owned()),
        };
        // Writing to a String cannot fail.
        let _ = write!(line, "{separator}{kind} {name}");
        let _ = write!(values, "{separator}{value}");
    }
    (format!("template <{line}>"), format!("<{values}>"))
}
