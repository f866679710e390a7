//! What connects a disk or a network interface with the processor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::tree::{Tree, value_of};

/// Directories between a device and its bus, at most.
const MOST_LEVELS: usize = 10;
/// Lanes of a PCI Express link, at most. Functions without a link state more.
const MOST_LANES: f64 = 32.0;

/// The bus of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoBus {
    /// `PCI Express`, `PCI`, `SATA`, `ATA`, `USB`, `virtio-mmio`, `VMBus` or `Xen`.
    pub name: String,
    /// Address on the bus, such as `0000:01:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Speed and lanes of the link, such as `16 GT/s ×4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The same at best, where it is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_link: Option<String>,
    /// Bytes per second that the link carries at most, without the overhead of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// The same at best, where it is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_bytes_per_second: Option<u64>,
}

impl IoBus {
    /// In words. Hypervisors give devices links that nothing passes through, so the words for a guest have none.
    pub(super) fn text(&self, is_guest: bool) -> String {
        let Some(link) = self.link.as_ref().filter(|_| !is_guest) else { return self.name.clone() };
        let best = self.best_link.as_ref().map(|best| format!(" (able to do {best})")).unwrap_or_default();
        format!("{} {link}{best}", self.name)
    }

    fn named(name: &str) -> IoBus {
        IoBus { name: name.to_owned(), ..IoBus::default() }
    }
}

impl Machine {
    /// Bytes per second that the link of the scratch disk carries at most. None in a guest: a hypervisor can claim any
    /// link for a device, and the bytes pass through none.
    pub fn scratch_link_rate(&self) -> Option<u64> {
        self.scratch()?.device.as_ref()?.bus.as_ref()?.bytes_per_second.filter(|_| !self.is_guest())
    }
}

/// The bus of the device in a directory of /sys: the nearest one on the way to the root.
pub(super) fn read(tree: &Tree, device: &str) -> Option<IoBus> {
    let up = |level: usize| format!("{device}{}", "/..".repeat(level));
    (0..MOST_LEVELS).map(up).find_map(|directory| of_directory(tree, &directory))
}

fn of_directory(tree: &Tree, directory: &str) -> Option<IoBus> {
    let text = |file: &str| tree.trimmed(&format!("{directory}/{file}"));
    let uevent = tree.text(&format!("{directory}/uevent")).unwrap_or_default();
    if let Some(port) = tree.names(&format!("{directory}/ata_port")).first() {
        return Some(sata(tree, port));
    }
    if value_of(&uevent, "DEVTYPE") == Some("usb_device") {
        return Some(usb(text("speed").as_deref()));
    }
    if text("class").is_some_and(|class| class.starts_with("0x")) && text("vendor").is_some() {
        return Some(IoBus { address: value_of(&uevent, "PCI_SLOT_NAME").map(str::to_owned), ..pci(&text) });
    }
    let alias = value_of(&uevent, "MODALIAS").unwrap_or_default();
    let driver = value_of(&uevent, "DRIVER").unwrap_or_default();
    let known = [
        (driver == "virtio-mmio", "virtio-mmio"),
        (alias.starts_with("vmbus:"), "VMBus"),
        (alias.starts_with("xen:"), "Xen"),
    ];
    known.iter().find(|(is_it, _)| *is_it).map(|(_, name)| IoBus::named(name))
}

/// A PCI function, by its files. A virtual one has no link.
fn pci(text: &dyn Fn(&str) -> Option<String>) -> IoBus {
    let number = |file: &str| text(file)?.split_whitespace().next()?.parse::<f64>().ok().filter(|number| *number > 0.0);
    let link = |which: &str| {
        let lanes = number(&format!("{which}_link_width")).filter(|lanes| *lanes <= MOST_LANES)?;
        Some((number(&format!("{which}_link_speed"))?, lanes))
    };
    let words = |(speed, lanes): (f64, f64)| format!("{speed} GT/s ×{lanes}");
    let Some(current) = link("current") else { return IoBus::named("PCI") };
    let best = link("max").filter(|best| *best != current);
    // 8b/10b up to 5 GT/s, 128b/130b above.
    let efficiency = |speed: f64| if speed <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    let bytes = |(speed, lanes): (f64, f64)| (speed * 1e9 / 8.0 * efficiency(speed) * lanes) as u64;
    IoBus {
        link: Some(words(current)),
        best_link: best.map(words),
        bytes_per_second: Some(bytes(current)),
        best_bytes_per_second: best.map(bytes),
        ..IoBus::named("PCI Express")
    }
}

/// The link of an ATA port such as `ata1`, which has no speed if it is parallel. Ten bits carry a byte.
fn sata(tree: &Tree, port: &str) -> IoBus {
    let number = port.trim_start_matches("ata");
    let speed = tree.trimmed(&format!("/sys/class/ata_link/link{number}/sata_spd"));
    let gigabits = speed.and_then(|text| text.strip_suffix("Gbps")?.trim().parse::<f64>().ok());
    IoBus {
        link: gigabits.map(|gigabits| format!("{gigabits} Gbit/s")),
        bytes_per_second: gigabits.map(|gigabits| (gigabits * 1e9 / 10.0) as u64),
        ..IoBus::named(if gigabits.is_some() { "SATA" } else { "ATA" })
    }
}

/// A USB device of a speed in Mbit/s. From 5 Gbit/s on, ten bits carry a byte at first, and 132 bits carry 16 above.
fn usb(speed: Option<&str>) -> IoBus {
    let megabits = speed.and_then(|text| text.parse::<f64>().ok());
    let bytes = |megabits: f64| match megabits {
        ..5000.0 => megabits * 1e6 / 8.0,
        ..10_000.0 => megabits * 1e6 / 10.0,
        _ => megabits * 1e6 / 8.0 * 128.0 / 132.0,
    };
    IoBus {
        link: megabits.map(|megabits| format!("{megabits} Mbit/s")),
        bytes_per_second: megabits.map(|megabits| bytes(megabits) as u64),
        ..IoBus::named("USB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{BlockDevice, Claims, Fact, Storage};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A tree with these files, and with a link `/sys/block/disk/device` to a directory of it.
    fn found(device: &str, files: &[(&str, &str)]) -> Option<IoBus> {
        let keep = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let place = keep.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        for (path, text) in files {
            put(path, text);
        }
        fs::create_dir_all(keep.path().join(device)).unwrap();
        fs::create_dir_all(keep.path().join("sys/block/disk")).unwrap();
        symlink(Path::new("../../..").join(device), keep.path().join("sys/block/disk/device")).unwrap();
        read(&Tree::at(keep.path()), "/sys/block/disk/device")
    }

    #[test]
    fn a_disk_has_the_link_of_the_function_above_it() {
        const FUNCTION: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
        let files = |speed: &'static str, width: &'static str| {
            [
                (format!("{FUNCTION}/class"), "0x010802\n"),
                (format!("{FUNCTION}/vendor"), "0x144d\n"),
                (format!("{FUNCTION}/uevent"), "DRIVER=nvme\nPCI_SLOT_NAME=0000:01:00.0\n"),
                (format!("{FUNCTION}/current_link_speed"), speed),
                (format!("{FUNCTION}/current_link_width"), width),
                (format!("{FUNCTION}/max_link_speed"), "16.0 GT/s PCIe\n"),
                (format!("{FUNCTION}/max_link_width"), "4\n"),
            ]
        };
        let of = |speed, width| {
            let files = files(speed, width);
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            found(&format!("{FUNCTION}/nvme/nvme0"), &files).unwrap()
        };
        let full = of("16.0 GT/s PCIe\n", "4\n");
        assert_eq!(
            (full.text(false).as_str(), full.address.as_deref()),
            ("PCI Express 16 GT/s ×4", Some("0000:01:00.0"))
        );
        assert_eq!(full.bytes_per_second, Some(7_876_923_076), "16 GT/s on 4 lanes less 2 bits of 130");
        let narrow = of("5.0 GT/s PCIe\n", "2\n");
        assert_eq!(narrow.text(false), "PCI Express 5 GT/s ×2 (able to do 16 GT/s ×4)");
        assert_eq!(narrow.bytes_per_second, Some(1_000_000_000));
        assert_eq!(of("Unknown\n", "0\n").text(false), "PCI");
        assert_eq!(of("16.0 GT/s PCIe\n", "63\n").text(false), "PCI", "a function inside of the root complex");
    }

    #[test]
    fn a_link_that_a_hypervisor_invents_limits_nothing() {
        let bus = IoBus {
            link: Some("2.5 GT/s ×1".to_owned()),
            bytes_per_second: Some(250_000_000),
            ..IoBus::named("PCI Express")
        };
        let device = BlockDevice { bus: Some(bus.clone()), ..BlockDevice::default() };
        let disk = Storage { scratch: true, mount: None, device: Some(device), device_unknown: None };
        let keep = tempfile::tempdir().unwrap();
        let mut machine = crate::machine::detect(keep.path(), Path::new("/data"));
        machine.storage = vec![disk];
        assert_eq!(machine.scratch_link_rate(), Some(250_000_000));
        machine.limits.hypervisor = Claims::of([Some(Fact::new("KVM".to_owned(), "for the test"))]);
        assert_eq!(machine.scratch_link_rate(), None);
        assert_eq!([false, true].map(|guest| bus.text(guest)), ["PCI Express 2.5 GT/s ×1", "PCI Express"]);
    }

    #[test]
    fn the_nearest_bus_counts() {
        let host = [("sys/devices/pci0/f/class", "0x0c0330"), ("sys/devices/pci0/f/vendor", "0x8086")];
        let usb = [
            ("sys/devices/pci0/f/usb2/2-1/uevent", "DEVTYPE=usb_device"),
            ("sys/devices/pci0/f/usb2/2-1/speed", "5000"),
        ];
        let stick = found("sys/devices/pci0/f/usb2/2-1/2-1:1.0/host0", &[host, usb].concat()).unwrap();
        assert_eq!((stick.text(false).as_str(), stick.bytes_per_second), ("USB 5000 Mbit/s", Some(500_000_000)));
        let sata = [
            ("sys/devices/pci0/f/ata3/ata_port/ata3/idle_irq", "0"),
            ("sys/class/ata_link/link3/sata_spd", "6.0 Gbps\n"),
        ];
        let disk = found("sys/devices/pci0/f/ata3/host2/target2:0:0/2:0:0:0", &[host, sata].concat()).unwrap();
        assert_eq!((disk.text(false).as_str(), disk.bytes_per_second), ("SATA 6 Gbit/s", Some(600_000_000)));
        let virtual_disk =
            found("sys/devices/platform/a0/virtio1", &[("sys/devices/platform/a0/uevent", "DRIVER=virtio-mmio\n")]);
        assert_eq!(virtual_disk.unwrap().text(true), "virtio-mmio");
        assert_eq!(found("sys/devices/virtual/x", &[]), None);
    }
}
