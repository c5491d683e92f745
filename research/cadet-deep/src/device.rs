//! Which device do image nets run on? The processor, or what a cargo feature of the same name adds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_tensor::{Device, Tensor};
use cadet::{Error, Result};

/// What [`open`] knows; all but the first are cargo features.
pub const NAMES: [&str; 6] = ["cpu", "cuda", "metal", "rocm", "vulkan", "webgpu"];

/// The device of this name, for instance `cpu`, `cuda` or, where there are several, `cuda:1`.
///
/// A device that is not built in, not there or not working is an error that says which.
pub fn open(name: &str) -> Result<Device> {
    let refuse = |why: String| Err(Error::config("--device", why));
    let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
    let (Some(kind), Ok(number)) = (NAMES.iter().find(|n| **n == kind), number.parse::<usize>()) else {
        return refuse(format!(
            "{name:?} is none: expected {}, or one with a number: cuda:1",
            NAMES.join(", ")
        ));
    };
    let Some(devices) = found(kind) else {
        return refuse(format!("{kind} is not built in: build with --features {kind} (docs/devices.md)"));
    };
    let Some(device) = devices.get(number) else {
        let there = match devices.len() {
            0 => "none on this machine: are its driver and the card there?".to_owned(),
            count => format!("no number {number} on this machine: there are {count}, counted from 0"),
        };
        return refuse(format!("{kind}: {there}"));
    };
    match *kind == "cpu" || answers(device) {
        true => Ok(device.clone()),
        false => refuse(format!("{name} is there but does not compute: is its driver new enough?")),
    }
}

/// The devices of a kind; nothing where it is not built in.
fn found(kind: &str) -> Option<Vec<Device>> {
    #[cfg(any(
        feature = "cuda",
        feature = "metal",
        feature = "rocm",
        feature = "vulkan",
        feature = "webgpu"
    ))]
    use burn_tensor::DeviceType;
    match kind {
        "cpu" => Some(vec![Device::flex()]),
        #[cfg(feature = "cuda")]
        "cuda" => Some(Device::enumerate(DeviceType::Cuda).to_vec()),
        #[cfg(feature = "metal")]
        "metal" => Some(Device::enumerate(DeviceType::Metal).to_vec()),
        #[cfg(feature = "rocm")]
        "rocm" => Some(Device::enumerate(DeviceType::Rocm).to_vec()),
        #[cfg(feature = "vulkan")]
        "vulkan" => Some(Device::enumerate(DeviceType::Vulkan).to_vec()),
        #[cfg(feature = "webgpu")]
        "webgpu" => Some(Device::enumerate(DeviceType::WebGpu).to_vec()),
        _ => None,
    }
}

/// Whether a device can add; those that cannot even start panic, which is caught.
fn answers(device: &Device) -> bool {
    let sum = || {
        let two: Tensor<1> = Tensor::ones([2], device) * 2.0;
        (two.clone() + two).into_data().iter::<f32>().next()
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = catch_unwind(AssertUnwindSafe(sum));
    std::panic::set_hook(hook);
    matches!(answer, Ok(Some(4.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_there_and_computes() {
        assert_eq!(open("cpu").unwrap(), Device::flex());
        assert!(answers(&open("cpu:0").unwrap()));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = |name: &str| open(name).unwrap_err().to_string();
        assert!(error("gpu").contains("--device: \"gpu\" is none: expected cpu, cuda"), "{}", error("gpu"));
        assert!(error("cpu:x").contains("is none"));
        assert!(error("cpu:1").contains("no number 1 on this machine: there are 1"), "{}", error("cpu:1"));
        #[cfg(not(feature = "metal"))]
        assert!(error("metal").contains("metal is not built in: build with --features metal"));
    }
}
