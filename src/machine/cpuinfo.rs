//! `/proc/cpuinfo` as kernels write it: a block of fields for each CPU, and on some architectures one for all.

use std::collections::HashMap;

use super::fact::Fact;
use super::tree::Tree;

/// Where most of what is known of a processor stands.
pub(super) const CPUINFO: &str = "/proc/cpuinfo";

/// Fields with the name of the processor: those of x86 and Arm, of LoongArch, of RISC-V, of Power and of MIPS.
const NAMES: [&str; 5] = ["model name", "Model Name", "uarch", "cpu", "cpu model"];

type Fields = HashMap<String, String>;

/// `/proc/cpuinfo`, block by block.
#[derive(Default)]
pub(super) struct CpuinfoBlocks {
    /// Blocks with the number of a CPU.
    cpus: Vec<Fields>,
    /// What stands in the others: of Arm before 3.8, Power, s390 and LoongArch.
    common: Fields,
}

impl CpuinfoBlocks {
    pub fn read(tree: &Tree) -> CpuinfoBlocks {
        tree.text(CPUINFO).map(|text| CpuinfoBlocks::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> CpuinfoBlocks {
        let mut found = CpuinfoBlocks::default();
        let lines: Vec<&str> = text.lines().collect();
        for block in lines.split(|line| line.trim().is_empty()) {
            let pairs = block.iter().filter_map(|line| line.split_once(':'));
            let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
            let (mut numbers, fields): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| name == "processor");
            match numbers.pop() {
                Some(number) if numbers.is_empty() => found.cpus.push(fields.into_iter().chain([number]).collect()),
                // Old kernels for Arm list all CPUs in one block, with what they have in common.
                Some(last) => {
                    found.cpus.extend(numbers.into_iter().chain([last]).map(|number| Fields::from([number])));
                    found.common.extend(fields);
                }
                None => found.common.extend(fields),
            }
        }
        found
    }

    /// Numbers of the CPUs that have a block.
    pub fn cpu_numbers(&self) -> Vec<u32> {
        let numbers = (0..self.cpus.len()).filter_map(|position| self.field(position, "processor")?.parse().ok());
        numbers.filter(|number| *number < 1 << 16).collect()
    }

    /// A field of the first CPU.
    pub fn text(&self, field: &str) -> Option<Fact<String>> {
        let value = self.field(0, field)?;
        (!value.is_empty()).then(|| Fact::new(value.to_owned(), format!("{CPUINFO} {field}")))
    }

    /// A number of the first CPU, decimal or with `0x`.
    pub fn number(&self, field: &str) -> Option<Fact<u32>> {
        self.text(field)?.filter_map(|text| parse_number(&text))
    }

    /// The name of the processor, where the file gives one.
    pub fn name(&self) -> Option<Fact<String>> {
        let named = NAMES.iter().filter_map(|field| self.text(field)).find(|fact| fact.value != "unknown");
        named.or_else(|| {
            let (_, machine) = self.field(0, "processor 0")?.split_once("machine = ")?;
            Some(Fact::new(format!("IBM machine type {machine}"), format!("{CPUINFO} processor 0")))
        })
    }

    /// The instruction set, as far as the fields of the file show.
    pub fn architecture(&self) -> Option<Fact<String>> {
        let by = |field: &str, name: &str| Fact::new(name.to_owned(), format!("{CPUINFO} has the field {field:?}"));
        let value = |field: &str| self.field(0, field);
        if let Some(isa) = value("isa").filter(|isa| isa.starts_with("rv")) {
            return Some(by("isa", if isa.starts_with("rv32") { "riscv32" } else { "riscv64" }));
        }
        if let Some(vendor) = value("vendor_id") {
            return Some(by("vendor_id", if vendor == "IBM/S390" { "s390x" } else { "x86_64" }));
        }
        if value("CPU implementer").is_some() {
            // `7`, `8`, `5TEJ`, or `AArch64` without a number.
            let version = value("CPU architecture")
                .and_then(|text| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u32>().ok());
            return Some(by(
                "CPU implementer",
                if version.is_some_and(|version| version < 8) { "arm" } else { "aarch64" },
            ));
        }
        let others = [
            ("CPU Family", "Loongson", "loongarch64"),
            ("cpu", "POWER", "ppc64"),
            ("timebase", "", "powerpc"),
            ("cpu model", "", "mips"),
            ("type", "sun4", "sparc64"),
        ];
        others
            .into_iter()
            .find(|(field, begin, _)| value(field).is_some_and(|value| value.starts_with(begin)))
            .map(|(field, _, name)| by(field, name))
    }

    /// MIDR implementer and part number of the block at this position.
    pub fn midr(&self, position: usize) -> Option<(u32, u32)> {
        let field = |name: &str| self.field(position, name).and_then(parse_number);
        Some((field("CPU implementer")?, field("CPU part")?))
    }

    fn field(&self, position: usize, name: &str) -> Option<&str> {
        let own = self.cpus.get(position).and_then(|fields| fields.get(name));
        own.or_else(|| self.common.get(name)).map(String::as_str)
    }
}

fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_is_named_with_its_processor() {
        let power = "processor : 0\ncpu : POWER9, altivec supported\nclock : 3800.0MHz\n\ntimebase : 512000000\nplatform : PowerNV\n";
        let s390 = "vendor_id       : IBM/S390\n# processors    : 2\n\
                    processor 0: version = 00,  identification = 0133E8,  machine = 8561\n\ncpu number      : 0\n";
        let loongson = "system type : generic-loongson-machine\n\nprocessor : 0\nCPU Family : Loongson-64bit\n\
                        Model Name : Loongson-3A5000\nBogoMIPS : 5000.00\n";
        for (text, architecture, name) in [
            ("processor : 0\nhart : 1\nisa : rv64imafdc\nuarch : sifive,u74-mc\n", "riscv64", Some("sifive,u74-mc")),
            (power, "ppc64", Some("POWER9, altivec supported")),
            (s390, "s390x", Some("IBM machine type 8561")),
            (loongson, "loongarch64", Some("Loongson-3A5000")),
            ("processor : 0\nvendor_id : GenuineIntel\nmodel name : unknown\n", "x86_64", None),
            ("processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\n", "aarch64", None),
            ("processor : 0\n\nCPU implementer : 0x41\nCPU architecture: 7\n", "arm", None),
            ("Processor : ARM926EJ-S\nCPU implementer : 0x41\nCPU architecture: 5TEJ\n", "arm", None),
            ("processor : 0\nCPU implementer : 0x41\nCPU architecture: AArch64\n", "aarch64", None),
            (
                "processor : 0\ncpu : e6500, altivec supported\n\ntimebase : 37500000\n",
                "powerpc",
                Some("e6500, altivec supported"),
            ),
            ("cpu : UltraSparc T5 (Niagara5)\ntype : sun4v\n", "sparc64", Some("UltraSparc T5 (Niagara5)")),
        ] {
            let blocks = CpuinfoBlocks::parse(text);
            let value = |fact: Option<Fact<String>>| fact.map(|fact| fact.value);
            assert_eq!(value(blocks.architecture()).as_deref(), Some(architecture));
            assert_eq!(value(blocks.name()).as_deref(), name);
        }
        assert!(CpuinfoBlocks::parse("").architecture().is_none());
    }

    #[test]
    fn one_block_can_list_all_cpus() {
        let text = "Processor : AArch64 Processor rev 4 (aarch64)\nprocessor : 0\nprocessor : 1\nprocessor : 2\n\
                    CPU implementer : 0x41\nCPU architecture: AArch64\nCPU part : 0xd03\n\nHardware : board\n";
        let blocks = CpuinfoBlocks::parse(text);
        assert_eq!(blocks.cpu_numbers(), [0, 1, 2]);
        assert_eq!([0, 2].map(|position| blocks.midr(position)), [Some((0x41, 0xd03)); 2]);
    }

    #[test]
    fn a_value_may_contain_colons_and_blocks_may_lack_fields() {
        let blocks = CpuinfoBlocks::parse("processor\t: 0\nmodel name\t: a: b\n\nprocessor\t: 3\n");
        assert_eq!(blocks.cpu_numbers(), [0, 3]);
        assert_eq!(blocks.name().unwrap().value, "a: b");
        assert_eq!(blocks.midr(1), None);
    }
}
