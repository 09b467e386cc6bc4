//! The structures that the dialect (`dialect/group.h`) and the scheduler share, field by field.

use std::ffi::{c_char, c_void};

/// Lanes of a simdgroup.
pub const SIMD_WIDTH: usize = 32;
/// Threadgroup variables a body may declare.
pub const MAX_SHARED: usize = 64;
/// Bytes after each threadgroup variable that must stay as they are.
pub const RED_ZONE: usize = 64;

#[repr(C, align(64))]
#[derive(Clone)]
pub struct ExchangePage {
    pub deposit: [u8; 1024],
    pub result: [u8; 512],
    pub result_step: u64,
    pub active: u32,
}

#[repr(C)]
#[derive(Clone)]
pub struct SimdGroup {
    pub page: [ExchangePage; 2],
    pub step: u64,
}

impl SimdGroup {
    pub fn new() -> Self {
        let page = ExchangePage {
            deposit: [0; 1024],
            result: [0; 512],
            result_step: 0,
            active: 0,
        };
        Self {
            page: [page.clone(), page],
            step: 0,
        }
    }
}

#[repr(C)]
pub struct Group {
    pub grid: [u32; 3],
    pub requested: [u32; 3],
    pub groups: [u32; 3],
    pub position: [u32; 3],
    pub size: [u32; 3],
    pub arena: *mut u8,
    pub arena_used: u64,
    pub declared: u64,
    pub limit: u64,
    pub wanted: u64,
    pub shared: [*mut c_void; MAX_SHARED],
    pub shared_bytes: [u64; MAX_SHARED],
}

/// What a stopped thread waits for. A plain number, since it is written by compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Scope(pub u32);

impl Scope {
    pub const SIMD: Self = Self(0);
    pub const MATRIX: Self = Self(1);
    pub const GROUP: Self = Self(2);
    pub const FAULT: Self = Self(3);
}

#[repr(C)]
pub struct Lane {
    pub group: *mut Group,
    pub simdgroup: *mut SimdGroup,
    pub suspend: extern "C" fn(*mut Lane),
    pub coroutine: *const c_void,
    pub operation: *const c_char,
    pub file: *const c_char,
    pub line: u32,
    pub scope: Scope,
    pub position: [u32; 3],
    pub index: u32,
}

/// The function every compiled kernel exports: runs the body for one thread, with the kernel's
/// buffers.
pub type Entry = unsafe extern "C" fn(*const *mut c_void, *mut Lane);

/// Gives the address of the variable that names the running lane, one for each host thread.
pub type Current = unsafe extern "C" fn() -> *mut *mut Lane;

/// Names of the two functions.
pub const ENTRY_NAME: &str = "metal_sim_entry";
pub const CURRENT_NAME: &str = "metal_sim_current";
