//! What a plan may know of the device.

use std::ffi::{CStr, CString, c_char};

use mlx_rs::DeviceType;

use crate::Backend;

/// The device that plans are made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceProfile {
    /// How operations run.
    pub backend: Backend,
    /// MLX's name of the architecture (`applegpu_g13s`, `sm_90`, `x86_64`); empty if unknown.
    pub architecture: String,
    /// GPU cores, streaming multiprocessors or CPU threads, where that is known.
    pub cores: Option<usize>,
}

impl DeviceProfile {
    /// The profile of this machine under `backend`.
    pub fn detect(backend: Backend) -> Self {
        let info = backend
            .is_gpu()
            .then(|| DeviceInfo::read(DeviceType::Gpu))
            .flatten();
        let architecture = info
            .as_ref()
            .and_then(DeviceInfo::architecture)
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let cores = match info {
            Some(info) => info
                .size(c"gpu_core_count")
                .or_else(|| info.size(c"multiprocessor_count")),
            None => std::thread::available_parallelism().ok().map(usize::from),
        };
        Self {
            backend,
            architecture,
            cores,
        }
    }

    /// Apple's GPU generation: the two digits of `applegpu_gNN?`, or 0 for anything else.
    pub fn apple_generation(&self) -> u32 {
        self.architecture
            .strip_prefix("applegpu_g")
            .and_then(|rest| rest.get(..2))
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0)
    }
}

/// MLX's description of a device's name, for people; `None` where MLX gives none.
pub fn device_name(kind: DeviceType) -> Option<String> {
    DeviceInfo::read(kind)?.text(c"device_name")
}

struct DeviceInfo(mlx_sys::mlx_device_info);

impl DeviceInfo {
    fn read(kind: DeviceType) -> Option<Self> {
        // SAFETY: handles are made and freed here; `info` is freed by `Drop`.
        unsafe {
            let device = mlx_sys::mlx_device_new_type(kind.into(), 0);
            let mut available = false;
            let known = mlx_sys::mlx_device_is_available(&raw mut available, device) == 0;
            let mut info = Self(mlx_sys::mlx_device_info_new());
            let read =
                known && available && mlx_sys::mlx_device_info_get(&raw mut info.0, device) == 0;
            mlx_sys::mlx_device_free(device);
            read.then_some(info)
        }
    }

    fn architecture(&self) -> Option<String> {
        self.text(c"architecture").or_else(|| {
            let major = self.size(c"compute_capability_major")?;
            let minor = self.size(c"compute_capability_minor")?;
            Some(format!("sm_{major}{minor}"))
        })
    }

    fn has(&self, key: &CStr) -> bool {
        let mut exists = false;
        // SAFETY: the handle is alive and `key` is a C string.
        unsafe {
            mlx_sys::mlx_device_info_has_key(&raw mut exists, self.0, key.as_ptr()) == 0 && exists
        }
    }

    fn text(&self, key: &CStr) -> Option<String> {
        let mut value: *const c_char = std::ptr::null();
        // SAFETY: the handle is alive; a value found is a C string that lives as long as it.
        unsafe {
            (self.has(key)
                && mlx_sys::mlx_device_info_get_string(&raw mut value, self.0, key.as_ptr()) == 0
                && !value.is_null())
            .then(|| {
                CString::from(CStr::from_ptr(value))
                    .to_string_lossy()
                    .into_owned()
            })
        }
    }

    fn size(&self, key: &CStr) -> Option<usize> {
        let mut value = 0;
        // SAFETY: the handle is alive and `value` is one writable usize.
        unsafe {
            (self.has(key)
                && mlx_sys::mlx_device_info_get_size(&raw mut value, self.0, key.as_ptr()) == 0)
                .then_some(value)
        }
    }
}

impl Drop for DeviceInfo {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and freed once.
        unsafe { mlx_sys::mlx_device_info_free(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_profile_names_architecture_and_threads() {
        let profile = DeviceProfile::detect(Backend::Cpu);
        assert_eq!(profile.architecture, std::env::consts::ARCH);
        assert!(profile.cores.unwrap() >= 1);
    }

    #[test]
    fn apple_generations_are_read_from_the_architecture() {
        let profile = |architecture: &str| DeviceProfile {
            backend: Backend::Metal,
            architecture: architecture.to_owned(),
            cores: None,
        };
        assert_eq!(profile("applegpu_g13s").apple_generation(), 13);
        assert_eq!(profile("applegpu_g16s").apple_generation(), 16);
        assert_eq!(profile("sm_90").apple_generation(), 0);
        assert_eq!(profile("applegpu_g").apple_generation(), 0);
    }
}
