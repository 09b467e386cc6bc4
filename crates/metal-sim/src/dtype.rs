//! Element types of buffers and template arguments.

use half::{bf16, f16};

/// The element type of an array or the value of a dtype template argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32, `float`.
    F32,
    /// IEEE binary16, `half`.
    F16,
    /// bfloat16, `bfloat`.
    BF16,
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit signed integer.
    I8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit signed integer.
    I16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit unsigned integer.
    U64,
    /// 64-bit signed integer.
    I64,
    /// A truth value, one byte.
    Bool,
}

impl DType {
    /// Bytes an element takes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::U16 | Self::I16 => 2,
            Self::F32 | Self::U32 | Self::I32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// The type's name in a generated signature.
    #[must_use]
    pub const fn metal_name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F16 => "float16_t",
            Self::BF16 => "bfloat16_t",
            Self::U8 => "uint8_t",
            Self::I8 => "int8_t",
            Self::U16 => "uint16_t",
            Self::I16 => "int16_t",
            Self::U32 => "uint32_t",
            Self::I32 => "int32_t",
            Self::U64 => "uint64_t",
            Self::I64 => "int64_t",
            Self::Bool => "bool",
        }
    }

    /// The little-endian bytes of `value` in this type, as an initial value converts it.
    pub(crate) fn encode(self, value: f32) -> Vec<u8> {
        match self {
            Self::F32 => value.to_ne_bytes().to_vec(),
            Self::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
            Self::BF16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
            Self::U8 => (value as u8).to_ne_bytes().to_vec(),
            Self::I8 => (value as i8).to_ne_bytes().to_vec(),
            Self::U16 => (value as u16).to_ne_bytes().to_vec(),
            Self::I16 => (value as i16).to_ne_bytes().to_vec(),
            Self::U32 => (value as u32).to_ne_bytes().to_vec(),
            Self::I32 => (value as i32).to_ne_bytes().to_vec(),
            Self::U64 => (value as u64).to_ne_bytes().to_vec(),
            Self::I64 => (value as i64).to_ne_bytes().to_vec(),
            Self::Bool => vec![u8::from(value != 0.0)],
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element of a buffer. Sealed: any byte pattern must be a value, so `bool`
/// is not one; use `u8` data with [`DType::Bool`] through [`Input::new`](crate::Input::new).
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The buffer type it stands for.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
element! {
    f32 => F32, f16 => F16, bf16 => BF16,
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
}
