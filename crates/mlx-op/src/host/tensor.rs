//! What a host operation's closure sees: its operands as typed slices.

use std::borrow::Cow;

use half::{bf16, f16};
use mlx_rs::Dtype;

use crate::error::HostError;

/// A Rust type that an MLX array can hold, bit for bit.
///
/// # Safety
///
/// `DTYPE` must be the MLX type whose elements have this type's size, alignment and meaning, and
/// every bit pattern must be a valid value.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The MLX element type.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $mlx:ident),* $(,)?) => {
        $(
            // SAFETY: MLX stores this dtype as exactly this type, and all bit patterns are valid.
            unsafe impl Element for $rust {
                const DTYPE: Dtype = Dtype::$mlx;
            }
        )*
    };
}

elements! {
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    f16 => Float16, bf16 => Bfloat16, f32 => Float32,
}

/// An input: shape, dtype and row-contiguous elements.
pub struct HostInput<'a> {
    shape: &'a [i32],
    dtype: Dtype,
    bytes: Cow<'a, [u64]>,
    pointer: *const u8,
    len: usize,
}

impl<'a> HostInput<'a> {
    /// # Safety
    ///
    /// `data` with `strides` must address `shape`'s elements of `dtype`, all readable for `'a`,
    /// and nobody may write them meanwhile.
    pub(super) unsafe fn new(
        data: *const u8,
        shape: &'a [i32],
        strides: &[i64],
        dtype: Dtype,
    ) -> Self {
        let len = shape.iter().map(|&size| size as usize).product();
        let bytes = if len == 0 || is_row_contiguous(shape, strides) {
            Cow::Borrowed(&[][..])
        } else {
            // SAFETY: the caller's promise.
            Cow::Owned(unsafe { gather(data, shape, strides, len, item_size(dtype)) })
        };
        let pointer = if bytes.is_empty() {
            data
        } else {
            bytes.as_ptr().cast()
        };
        Self {
            shape,
            dtype,
            bytes,
            pointer,
            len,
        }
    }

    /// Dimensions.
    pub fn shape(&self) -> &[i32] {
        self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether the operand had to be copied to become row-contiguous.
    pub fn was_copied(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    ///
    /// When `T` is not the array's element type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], HostError> {
        check::<T>(self.dtype)?;
        if self.len == 0 {
            return Ok(&[]);
        }
        // SAFETY: `pointer` addresses `len` elements of this dtype (checked above), alive and
        // unwritten for as long as `self`.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer.cast(), self.len) })
    }

    /// The elements' bytes in row-major order.
    pub fn as_bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: as for `as_slice`; bytes have no alignment or validity to break.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len * item_size(self.dtype)) }
    }
}

/// An output: shape, dtype and row-contiguous elements.
pub struct HostOutput<'a> {
    shape: &'a [i32],
    dtype: Dtype,
    pointer: *mut u8,
    len: usize,
}

impl<'a> HostOutput<'a> {
    /// # Safety
    ///
    /// `data` must address `shape`'s elements of `dtype`, row-contiguous, writable and not
    /// otherwise used for `'a`.
    pub(super) unsafe fn zeroed(data: *mut u8, shape: &'a [i32], dtype: Dtype) -> Self {
        // SAFETY: the caller's promise, and the elements are set before anybody sees them.
        unsafe {
            let output = Self::filled(data, shape, dtype);
            if output.len > 0 {
                // Fresh memory from MLX's allocator is uninitialised, which a slice may not be.
                std::ptr::write_bytes(data, 0, output.len * item_size(dtype));
            }
            output
        }
    }

    /// # Safety
    ///
    /// As for [`Self::zeroed`], and the elements are initialised.
    pub(super) unsafe fn filled(data: *mut u8, shape: &'a [i32], dtype: Dtype) -> Self {
        let len = shape.iter().map(|&size| size as usize).product();
        Self {
            shape,
            dtype,
            pointer: data,
            len,
        }
    }

    /// Dimensions.
    pub fn shape(&self) -> &[i32] {
        self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The elements in row-major order: at first zero, or what the updated array held.
    ///
    /// # Errors
    ///
    /// When `T` is not the array's element type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], HostError> {
        check::<T>(self.dtype)?;
        if self.len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: `pointer` addresses `len` initialised elements of this dtype (checked above),
        // and `&mut self` makes the borrow unique.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.len) })
    }

    /// The elements' bytes in row-major order, which begin as those of [`Self::as_mut_slice`].
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as for `as_mut_slice`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len * item_size(self.dtype)) }
    }
}

/// Bytes of one element.
fn item_size(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Bool | Dtype::Uint8 | Dtype::Int8 => 1,
        Dtype::Uint16 | Dtype::Int16 | Dtype::Float16 | Dtype::Bfloat16 => 2,
        Dtype::Uint32 | Dtype::Int32 | Dtype::Float32 => 4,
        Dtype::Uint64 | Dtype::Int64 | Dtype::Float64 | Dtype::Complex64 => 8,
    }
}

fn check<T: Element>(found: Dtype) -> Result<(), HostError> {
    if T::DTYPE == found {
        Ok(())
    } else {
        Err(HostError::Dtype {
            expected: T::DTYPE,
            found,
        })
    }
}

fn is_row_contiguous(shape: &[i32], strides: &[i64]) -> bool {
    let mut expected = 1;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 && stride != expected {
            return false;
        }
        expected *= i64::from(size);
    }
    true
}

/// Copies a strided operand into row-major order; `u64` words keep every element type aligned.
///
/// # Safety
///
/// As for [`HostInput::new`], with at least one element.
unsafe fn gather(
    data: *const u8,
    shape: &[i32],
    strides: &[i64],
    len: usize,
    item: usize,
) -> Vec<u64> {
    let mut words = vec![0_u64; (len * item).div_ceil(8)];
    let target: *mut u8 = words.as_mut_ptr().cast();
    let mut index = vec![0_i32; shape.len()];
    let mut offset = 0_i64;
    for element in 0..len {
        // SAFETY: `offset` is the element at `index`, which lies inside the operand; the target
        // has room for `len` items.
        unsafe {
            let source = data.offset(offset as isize * item as isize);
            std::ptr::copy_nonoverlapping(source, target.add(element * item), item);
        }
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * i64::from(shape[axis]);
            index[axis] = 0;
        }
    }
    words
}
