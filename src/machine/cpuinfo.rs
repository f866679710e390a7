//! `/proc/cpuinfo` as the kernel writes it: one block of fields for each CPU.

use procfs_core::{CpuInfo, FromRead};

use super::fact::Fact;
use super::tree::Tree;

/// Where most of what is known of a processor stands.
pub(super) const CPUINFO: &str = "/proc/cpuinfo";

/// `/proc/cpuinfo`, one block per CPU.
pub(super) struct CpuinfoBlocks(Option<CpuInfo>);

impl CpuinfoBlocks {
    pub fn read(tree: &Tree) -> CpuinfoBlocks {
        CpuinfoBlocks(tree.bytes(CPUINFO).and_then(|bytes| CpuInfo::from_read(bytes.as_slice()).ok()))
    }

    /// Numbers of the CPUs that have a block.
    pub fn cpu_numbers(&self) -> Vec<u32> {
        let Some(info) = &self.0 else { return Vec::new() };
        // With one CPU every field is common to all, the number included.
        (0..info.cpus.len())
            .filter_map(|position| info.get_field(position, "processor")?.parse().ok())
            .filter(|number| *number < 1 << 16)
            .collect()
    }

    /// A field of the first CPU.
    pub fn text(&self, field: &str) -> Option<Fact<String>> {
        let value = self.0.as_ref()?.get_field(0, field)?;
        (!value.is_empty()).then(|| Fact::new(value.to_owned(), format!("{CPUINFO} {field}")))
    }

    /// A number of the first CPU, decimal or with `0x`.
    pub fn number(&self, field: &str) -> Option<Fact<u32>> {
        self.text(field)?.filter_map(|text| parse_number(&text))
    }

    /// MIDR implementer and part number of the block at this position.
    pub fn midr(&self, position: usize) -> Option<(u32, u32)> {
        let field = |name: &str| self.0.as_ref()?.get_field(position, name).and_then(parse_number);
        Some((field("CPU implementer")?, field("CPU part")?))
    }
}

fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
