//! Where each kernel is used: data, with the origin of each line beside it.
//!
//! A line permits a kernel, or a way in which a kernel works, for products that it was measured on.
//! It says what is fast; what a kernel can compute at all is for the kernel to say.

use std::fmt;
use std::ops::RangeInclusive;

use mlx_op::{Backend, DeviceProfile};
use mlx_rs::Dtype;
use trellis_codec::{Axis, DEFAULT_BLOCK, DEFAULT_STATE_BITS, Geometry, Layout};

/// What a line permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// Gate and up of one width with values from a table of float32.
    GateUpTable,
    /// Gate and up of two widths with integer codes lifted into floats.
    GateUpLifted,
    /// The scatter of one row with integer codes lifted into floats.
    ScatterLifted,
    /// The scatter of one row with values from a table of float32.
    ScatterTable,
    /// The balanced scatter of several rows with codes from a table of 16-bit integers.
    ScatterShortTable,
    /// Decoding tiles of weights for a matrix product.
    PrefillTiled,
    /// The same with the inner dimension split.
    PrefillSplit,
    /// Decoding rows of weights for many vectors.
    PrefillWide,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::GateUpTable => "gate/up with a table of values",
            Self::GateUpLifted => "mixed gate/up with lifted codes",
            Self::ScatterLifted => "scatter with lifted codes",
            Self::ScatterTable => "scatter with a table of values",
            Self::ScatterShortTable => "shared scatter with a table of codes",
            Self::PrefillTiled => "tiled prefill",
            Self::PrefillSplit => "split prefill",
            Self::PrefillWide => "wide prefill",
        }
    }
}

/// The devices of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Devices {
    /// Apple GPUs of this architecture alone.
    Apple(&'static str),
    /// Apple GPUs from this generation on.
    AppleFrom(u32),
    /// Apple GPUs up to this generation, unknown ones among them.
    AppleTo(u32),
    /// Every Apple GPU.
    AppleAny,
    /// The simulator, which is there to run kernels.
    Sim,
}

impl Devices {
    fn include(self, profile: &DeviceProfile) -> bool {
        let metal = profile.backend == Backend::Metal;
        match self {
            Self::Apple(architecture) => metal && profile.architecture == architecture,
            Self::AppleFrom(first) => metal && profile.apple_generation() >= first,
            Self::AppleTo(last) => metal && profile.apple_generation() <= last,
            Self::AppleAny => metal,
            Self::Sim => profile.backend == Backend::Sim,
        }
    }
}

/// The codes of a line: bits a weight and layout.
type Codes = &'static [(u32, Layout)];

const NARROW: Codes = &[(2, Layout::Rows), (3, Layout::Rows), (4, Layout::Rows)];
const PAIRS_AT_3: Codes = &[
    (2, Layout::Rows),
    (3, Layout::BlockPairs),
    (4, Layout::Rows),
];
const EITHER_LAYOUT: Codes = &[
    (2, Layout::Rows),
    (3, Layout::Rows),
    (4, Layout::Rows),
    (2, Layout::BlockPairs),
    (3, Layout::BlockPairs),
    (4, Layout::BlockPairs),
];

/// A choice, and the products that it is permitted for: bfloat16 activations, blocks of 256, 12 state
/// bits, and the rest as the fields say.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub choice: Choice,
    devices: Devices,
    rows: RangeInclusive<i32>,
    axis: Axis,
    codes: Codes,
    /// Stored rows and coded columns; every extent without it.
    stored: Option<[usize; 2]>,
    /// Where the line comes from.
    origin: &'static str,
}

impl Line {
    /// Whether the device and the weight are among the line's.
    pub(super) fn fits(&self, profile: &DeviceProfile, geometry: &Geometry) -> bool {
        let format = geometry.format();
        self.devices.include(profile)
            && format.block() == DEFAULT_BLOCK
            && format.state_bits() == DEFAULT_STATE_BITS
            && geometry.axis() == self.axis
            && self.codes.contains(&(format.bits(), geometry.layout()))
            && self
                .stored
                .is_none_or(|stored| stored == [geometry.rows(), geometry.cols()])
    }

    /// Whether a product of so many rows, with activations of that type, is among the line's.
    pub(super) fn covers(&self, rows: i32, dtype: Dtype) -> bool {
        self.rows.contains(&rows) && dtype == Dtype::Bfloat16
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.rows.start(), self.rows.end());
        write!(f, "{} at {first} to {last} rows, ", self.choice.name())?;
        match self.stored {
            Some([rows, cols]) => write!(f, "{rows} x {cols} stored")?,
            None => write!(f, "any extents")?,
        }
        write!(f, ", axis {}: {}", self.axis.index(), self.origin)
    }
}

/// The lines of the table for a device, in words, with their origins.
pub fn profile_lines(profile: &DeviceProfile) -> Vec<String> {
    let lines = LINES.iter().filter(|line| line.devices.include(profile));
    lines.map(Line::to_string).collect()
}

/// Gate, up and the stored (transposed) down of the 27B model that the kernels were first made for.
const MLP: [usize; 2] = [17408, 5120];
const M1_MAX: Devices = Devices::Apple("applegpu_g13s");
const ON_M1_MAX: &str = "M1 Max, 17408 x 5120; elsewhere tables lost at one row (M4 Pro)";
const ON_M4_PRO: &str = "M4 Pro, whole MLP: 4.1% faster at 4 rows, 2.5% at 3, slower at 1";
const COVERAGE: &str = "every kernel in its range, for coverage";

const fn line(
    choice: Choice,
    devices: Devices,
    rows: RangeInclusive<i32>,
    axis: Axis,
    codes: Codes,
    stored: Option<[usize; 2]>,
    origin: &'static str,
) -> Line {
    Line {
        choice,
        devices,
        rows,
        axis,
        codes,
        stored,
        origin,
    }
}

/// The lines. Figures are of the reference implementation's measurements on the devices named; no
/// Metal device has run this project yet.
#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line(Choice::GateUpTable, M1_MAX, 1..=1, Axis::Input, NARROW, Some(MLP), ON_M1_MAX),
    line(Choice::GateUpLifted, M1_MAX, 1..=1, Axis::Input, NARROW, Some(MLP), ON_M1_MAX),
    line(Choice::ScatterLifted, M1_MAX, 1..=1, Axis::Output, PAIRS_AT_3, Some(MLP), ON_M1_MAX),
    line(Choice::ScatterTable, M1_MAX, 1..=1, Axis::Output, PAIRS_AT_3, Some(MLP), ON_M1_MAX),
    line(Choice::ScatterShortTable, Devices::AppleAny, 3..=4, Axis::Output, &[(3, Layout::BlockPairs)], Some(MLP), ON_M4_PRO),
    line(Choice::PrefillWide, Devices::AppleFrom(15), 5..=15, Axis::Input, NARROW, Some(MLP), "MLX's own choice of kernel from generation 15 on"),
    line(Choice::PrefillTiled, Devices::AppleFrom(15), 16..=32, Axis::Input, NARROW, Some(MLP), "M4 Pro, 17408 x 5120"),
    line(Choice::PrefillTiled, Devices::AppleTo(14), 5..=32, Axis::Input, NARROW, Some(MLP), "M1 Max, 17408 x 5120"),
    line(Choice::PrefillSplit, Devices::AppleAny, 5..=8, Axis::Output, EITHER_LAYOUT, Some(MLP), "M1 Max and M4 Pro, 17408 to 5120"),
    line(Choice::ScatterShortTable, Devices::Sim, 3..=4, Axis::Output, &[(3, Layout::BlockPairs)], None, COVERAGE),
    line(Choice::PrefillWide, Devices::Sim, 9..=15, Axis::Input, NARROW, None, COVERAGE),
    line(Choice::PrefillTiled, Devices::Sim, 5..=32, Axis::Input, NARROW, None, COVERAGE),
    line(Choice::PrefillSplit, Devices::Sim, 5..=8, Axis::Output, EITHER_LAYOUT, None, COVERAGE),
];

#[cfg(test)]
mod tests {
    use trellis_codec::Format;

    use super::*;

    fn profile(backend: Backend, architecture: &str) -> DeviceProfile {
        DeviceProfile {
            backend,
            architecture: architecture.to_owned(),
            cores: None,
        }
    }

    fn geometry(bits: u32, axis: Axis, layout: Layout, [rows, cols]: [usize; 2]) -> Geometry {
        let format = Format::new(bits, 12, 256).unwrap();
        Geometry::new(format, axis, layout, rows, cols).unwrap()
    }

    fn permitted(choice: Choice, profile: &DeviceProfile, geometry: &Geometry, rows: i32) -> bool {
        LINES.iter().any(|line| {
            line.choice == choice
                && line.fits(profile, geometry)
                && line.covers(rows, Dtype::Bfloat16)
        })
    }

    #[test]
    fn lines_name_their_origin() {
        assert!(LINES.iter().all(|line| !line.origin.is_empty()));
    }

    #[test]
    fn qualified_forms_are_for_their_device_and_shape_alone() {
        let m1_max = profile(Backend::Metal, "applegpu_g13s");
        let down = geometry(3, Axis::Output, Layout::BlockPairs, MLP);
        for choice in [Choice::ScatterTable, Choice::ScatterLifted] {
            assert!(permitted(choice, &m1_max, &down, 1));
            assert!(!permitted(choice, &m1_max, &down, 2));
            for other in [
                geometry(3, Axis::Output, Layout::Rows, MLP),
                geometry(4, Axis::Output, Layout::BlockPairs, MLP),
                geometry(3, Axis::Output, Layout::BlockPairs, [17408, 5632]),
                geometry(3, Axis::Output, Layout::BlockPairs, [17407, 5120]),
                geometry(2, Axis::Input, Layout::Rows, MLP),
            ] {
                assert!(!permitted(choice, &m1_max, &other, 1), "{other:?}");
            }
            for other in ["applegpu_g13d", "applegpu_g16s", ""] {
                let other = profile(Backend::Metal, other);
                assert!(!permitted(choice, &other, &down, 1), "{other:?}");
            }
            let cuda = profile(Backend::Cuda, "sm_90");
            assert!(!permitted(choice, &cuda, &down, 1));
        }
    }

    #[test]
    fn apple_generations_choose_between_prefill_kernels() {
        let gate = geometry(3, Axis::Input, Layout::Rows, MLP);
        for (architecture, rows, wide, tiled) in [
            ("applegpu_g13s", 5, false, true),
            ("applegpu_g13s", 32, false, true),
            ("applegpu_g13s", 33, false, false),
            ("applegpu_g16s", 4, false, false),
            ("applegpu_g16s", 5, true, false),
            ("applegpu_g16s", 15, true, false),
            ("applegpu_g16s", 16, false, true),
        ] {
            let profile = profile(Backend::Metal, architecture);
            let found = [Choice::PrefillWide, Choice::PrefillTiled]
                .map(|choice| permitted(choice, &profile, &gate, rows));
            assert_eq!(found, [wide, tiled], "{architecture}, {rows} rows");
        }
    }
}
