//! The GPU that its driver names first.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::io_bus::{self, IoBus};
use super::tree::Tree;
use crate::sys::gpu::Device;

/// A GPU whose driver was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Its name.
    pub name: String,
    /// The version of CUDA that the driver has, such as `12.4`.
    pub cuda: String,
    /// How many GPUs the driver shows.
    pub count: u64,
    /// What connects it with the processor. None where that is not PCI, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<IoBus>,
}

impl Gpu {
    /// The device of the running machine that a driver describes.
    pub fn of(device: &Device) -> Gpu {
        Gpu::in_tree(device, &Tree::at(Path::new("/")))
    }

    fn in_tree(device: &Device, tree: &Tree) -> Gpu {
        let directory = format!("/sys/bus/pci/devices/{}", device.address);
        let bus = (!device.linked_otherwise).then(|| io_bus::read(tree, &directory)).flatten();
        let cuda = format!("{}.{}", device.version / 1000, device.version % 1000 / 10);
        Gpu { name: device.name.clone(), cuda, count: device.count, bus }
    }
}

impl Machine {
    /// Bytes per second that the link of the GPU carries at best. An idle GPU makes its link slower until it has work. None in a guest: a
    /// hypervisor can claim any link.
    pub fn gpu_link_rate(&self) -> Option<u64> {
        let bus = self.gpu.as_ref()?.bus.as_ref().filter(|_| !self.is_guest())?;
        bus.best_bytes_per_second.or(bus.bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_idle_gpu_has_the_link_that_it_can_have() {
        let keep = tempfile::tempdir().unwrap();
        let directory = keep.path().join("sys/bus/pci/devices/0000:3b:00.0");
        fs::create_dir_all(&directory).unwrap();
        let files = [
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("uevent", "PCI_SLOT_NAME=0000:3b:00.0\n"),
            ("current_link_speed", "2.5 GT/s PCIe\n"),
            ("current_link_width", "16\n"),
            ("max_link_speed", "16.0 GT/s PCIe\n"),
            ("max_link_width", "16\n"),
        ];
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        let device = Device {
            name: "NVIDIA T4".to_owned(),
            version: 12040,
            count: 2,
            address: "0000:3b:00.0".to_owned(),
            linked_otherwise: false,
        };
        let tree = Tree::at(keep.path());
        let gpu = Gpu::in_tree(&device, &tree);
        assert_eq!((gpu.cuda.as_str(), gpu.bus.as_ref().unwrap().address.as_deref()), ("12.4", Some("0000:3b:00.0")));
        let nowhere = Path::new("/proc/nonexistent");
        let machine = Machine { gpu: Some(Box::new(gpu)), ..crate::machine::detect(nowhere, nowhere) };
        assert_eq!(machine.gpu_link_rate(), Some(31_507_692_307), "16 GT/s on 16 lanes less 2 bits of 130");
        let coherent = Gpu::in_tree(&Device { linked_otherwise: true, ..device }, &tree);
        assert_eq!(coherent.bus, None);
    }
}
