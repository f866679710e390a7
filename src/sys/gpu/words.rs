//! What sysdyno and the program that loads the driver of a GPU say to each other: words of 64 bits. Both are compiled with this file, and
//! so is the build script.

/// Words of a request: what is asked, and its arguments.
pub type Request = [u64; 8];
/// Words of an answer: an outcome, and what belongs to it.
pub type Answer = [u64; 16];
/// First of the words of an answer that hold a name.
pub const NAME: usize = 8;

/// Requests. Describe the first device: driver version, number of devices, domain, bus and device on PCI, whether host memory is
/// reached by another link, and the name.
pub const DESCRIBE: u64 = 1;
/// Prepare work: the most bytes of a copy.
pub const PREPARE: u64 = 2;
/// Launches in a row, and then a wait for the last: the clock and how many. Ticks, and how often the kernel preempted the thread.
pub const LAUNCH: u64 = 3;
/// The same with a wait after each launch.
pub const LAUNCH_WAIT: u64 = 4;
/// Copies: the clock, how many, the direction, the memory, bytes, and a number that decides their content.
pub const COPY: u64 = 5;

/// The clock is the counter of the architecture.
pub const COUNTER: u64 = 0;
/// Copies to the device. Others are from it.
pub const TO_DEVICE: u64 = 0;
/// Host memory that the driver has pinned. Other memory is pageable.
pub const PINNED: u64 = 0;

/// Outcomes. All went well.
pub const DONE: u64 = 0;
/// A call of the driver failed: its place in [`CALLS`], its error, and the name of that.
pub const REFUSED: u64 = 1;
/// The calls succeeded, and the result is not what they must have done.
pub const WRONG: u64 = 2;
/// There is no device.
pub const NO_DEVICE: u64 = 3;
/// The program has too little memory.
pub const NO_MEMORY: u64 = 4;

/// Calls of the driver, as its library names them.
pub const CALLS: [&str; 19] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuStreamSynchronize",
    "cuMemAlloc_v2",
    "cuMemsetD32_v2",
    "cuMemAllocHost_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuCtxSynchronize",
    "cuGetErrorName",
];
