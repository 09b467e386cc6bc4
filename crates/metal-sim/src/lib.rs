//! Runs Metal compute kernel bodies on the CPU, lane by lane.
//!
//! A kernel is given as [MLX's
//! `metal_kernel`](https://ml-explore.github.io/mlx/build/html/dev/custom_metal_kernels.html) takes
//! it: a function body, names of inputs and outputs, perhaps a header. The signature is generated
//! by the same rules. The body is compiled by the host's C++ compiler under a dialect of Metal's
//! language, and each thread of the grid becomes a coroutine. So a shader can be run, tested and
//! debugged where there is no Apple GPU.
//!
//! ```
//! use metal_sim::{Config, DType, Input, KernelSource, Launch, OutputSpec, Simulator};
//!
//! // The sum of each row of a matrix: one simdgroup a row, a tree of shuffles.
//! let kernel = KernelSource {
//!     name: "row_sums".into(),
//!     input_names: vec!["a".into()],
//!     output_names: vec!["sums".into()],
//!     body: "
//!         uint row = thread_position_in_grid.y;
//!         uint lane = thread_index_in_simdgroup;
//!         uint width = uint(a_shape[1]);
//!         float sum = 0.0f;
//!         for (uint column = lane; column < width; column += 32)
//!             sum += a[row * width + column];
//!         for (ushort distance = 16; distance > 0; distance /= 2)
//!             sum += simd_shuffle_down(sum, distance);
//!         if (lane == 0)
//!             sums[row] = sum;
//!     ".into(),
//!     header: String::new(),
//! };
//!
//! let a: Vec<f32> = (0..3 * 100).map(|i| i as f32).collect();
//! let launch = Launch {
//!     inputs: &[Input::of(&a, &[3, 100])],
//!     outputs: &[OutputSpec::new(&[3], DType::F32)],
//!     template: &[],
//!     grid: [32, 3, 1],
//!     threadgroup: [32, 1, 1],
//!     init_value: None,
//! };
//! let simulator = Simulator::new(Config::default())?;
//! let outputs = simulator.run(&kernel, &launch)?;
//! assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [4950.0, 14950.0, 24950.0]);
//! # Ok::<(), metal_sim::SimError>(())
//! ```
//!
//! # What is simulated
//!
//! - Metal's scalar and vector types, swizzles, `as_type`, the math, integer, relational and
//!   geometric functions, and the helpers that MLX puts before every kernel. `half` and `bfloat`
//!   round after every operation. Only an explicit `fma` is fused. Unsuffixed floating constants
//!   are floats.
//! - All attributes, template arguments, and inputs that MLX passes: by reference, in constant or
//!   in device memory.
//! - Grids of exactly as many threads as asked for, in threadgroups that are smaller at the far
//!   edges.
//! - SIMD groups of 32 with reductions, prefix sums, shuffles, votes, quads, and 8 x 8 matrices in
//!   Metal's fragment layout. A product takes its eight terms in ascending order, each fused into a
//!   float.
//! - Threadgroup variables and barriers.
//!
//! Not simulated: atomics, textures, the relative speed of anything, and what Apple's compiler
//! would refuse. In particular all address spaces are one here.
//!
//! # What is found out
//!
//! - Threads of a group at different barriers, or lanes of a simdgroup at different operations: an
//!   error naming both places ([`SimError::Divergence`]). Metal allows operations among the lanes
//!   of one branch; here all lanes that have not returned must take part, as on most other GPUs.
//! - Threads that have returned while others wait at a threadgroup barrier ([`SimError::Missing`]).
//! - Output elements that no thread wrote ([`SimError::Unwritten`]). Outputs start as a pattern
//!   that results should not hold; if some do, the launch is run again with another pattern, so
//!   there are no false alarms.
//! - Threadgroup memory and unset matrices that are read before they are written: they start as
//!   NaN. Writes past the end of a threadgroup variable ([`SimError::ThreadgroupOverrun`]).
//! - With [`Config::strict`], writes within 4 KiB of an array ([`SimError::OutOfBounds`]), writes
//!   to inputs ([`SimError::InputWritten`]), and NaN for reads there.
//! - Missing barriers: run under several [`Order`]s and compare.
//!
//! A body that strays further than the guard zones may crash the process. Run only kernels that you
//! trust: they are native code.
//!
//! # Speed
//!
//! A simdgroup operation costs each lane two switches of stacks, whatever the operation: some 15 to
//! 20 million thread operations a second and core. `cargo run --release -p metal-sim --example
//! switches` prints the figures of a machine. Threadgroups are spread over the cores. Compiled
//! kernels are kept on disk, by the hash of the source, the compiler and its flags.

mod abi;
mod arena;
mod buffers;
mod compile;
mod config;
mod constants;
mod declarations;
mod dtype;
mod error;
mod fault;
mod geometry;
mod kernel;
mod lexer;
mod order;
mod run;
mod signature;
mod sim;
mod source;
mod stack;
mod worker;

pub use config::{Config, Order};
pub use dtype::{DType, Element};
pub use error::{Place, SimError};
pub use kernel::{Input, KernelSource, Launch, MAX_BUFFERS, MAX_THREADS, OutputSpec, TemplateArg};
pub use sim::{OutputBuf, Simulator};
