//! The orderings that the protocol stands on, each with its name and its argument, so that a test
//! can take each one away and see a power cut break the volume. `FORMAT.md`, "Rules of change".
//!
//! In an ordinary build the names cost nothing. Under the feature `mutations`, for the project's
//! own tests, a volume can be mounted that leaves one of them out.

/// A barrier: all that has completed before is durable before anything after it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Data, then the size that covers it: else bytes that were never written would show.
    DataBeforeSize,
    /// A slot, then the word that it is durable (sync, create, remove; without force unit access).
    SlotBeforeAnswer,
    /// What was overwritten or committed earlier, then the answer of a sync that changes nothing.
    OverwriteBeforeAnswer,
    /// A file's last commit, then the slot's other member when it is closed: else both members
    /// may be torn, and the file is lost.
    CommitBeforeCopy,
    /// What stands in a free slot, then the new file's slot: its other member may be not durable,
    /// from a removal a moment ago.
    FreeBeforeCreate,
    /// A file made with its space, then the answer of create.
    CreateBeforeAnswer,
    /// A slot's last commit, then its removal, in the other member.
    CommitBeforeRemove,
    /// A file removed with its space, then the answer of remove.
    RemoveBeforeAnswer,
    /// What the last operation wrote, then the record of a reservation, which overwrites the
    /// means to complete it.
    NodesBeforeReserve,
    /// The record of a reservation, then its nodes: only so can recovery undo them.
    ReserveBeforeNodes,
    /// What the last operation wrote, then the record of a release.
    NodesBeforeRelease,
    /// The record of a release, then its nodes.
    ReleaseBeforeNodes,
    /// What the last operation wrote, then the record of a rename.
    NodesBeforeRename,
    /// The record of a rename, then the new name: else both names could stay.
    RenameBeforeName,
    /// The new name, then the end of the old one: else both could be lost.
    NameBeforeOld,
    /// What a program that died left in the device's cache, then what recovery writes.
    CacheBeforeRecovery,
    /// What recovery settled, then the superblock without the record of it.
    RecoveryBeforeClear,
    /// What a program that died left in the cache, then the mark that the volume is in use.
    CacheBeforeInUse,
    /// All nodes, then the mark that the volume is clean.
    NodesBeforeClean,
    /// The first clean superblock, then the second.
    CleanBeforeClean,
}

/// A way of getting the protocol wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// None.
    #[cfg(feature = "mutations")]
    None,
    /// This barrier is left out.
    Without(Order),
    /// A slot is written over its newest member.
    SlotInPlace,
    /// A bitmap is written over its newest member.
    BitmapInPlace,
    /// A leaf is written over its newest member.
    LeafInPlace,
    /// A superblock is written over the newest one.
    SuperblockInPlace,
    /// A fresh leaf pair gets one member only.
    HalfAPair,
    /// The slot does not carry the number of its operation.
    NoOpNumber,
    /// A new file does not keep the number of the last operation on its slot.
    ForgetOpNumber,
    /// Mounting completes and undoes nothing.
    NoRecovery,
    /// Recovery does not write a torn bitmap member anew.
    LeaveTorn,
    /// The older valid member wins.
    OldestWins,
    /// A commit takes in what is still in flight.
    CommitInFlight,
}

#[cfg(feature = "mutations")]
impl Order {
    /// All of them.
    pub const ALL: [Order; 20] = [
        Order::DataBeforeSize,
        Order::SlotBeforeAnswer,
        Order::OverwriteBeforeAnswer,
        Order::CommitBeforeCopy,
        Order::FreeBeforeCreate,
        Order::CreateBeforeAnswer,
        Order::CommitBeforeRemove,
        Order::RemoveBeforeAnswer,
        Order::NodesBeforeReserve,
        Order::ReserveBeforeNodes,
        Order::NodesBeforeRelease,
        Order::ReleaseBeforeNodes,
        Order::NodesBeforeRename,
        Order::RenameBeforeName,
        Order::NameBeforeOld,
        Order::CacheBeforeRecovery,
        Order::RecoveryBeforeClear,
        Order::CacheBeforeInUse,
        Order::NodesBeforeClean,
        Order::CleanBeforeClean,
    ];
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// All that are not barriers.
    pub const OTHERS: [Mutation; 11] = [
        Mutation::SlotInPlace,
        Mutation::BitmapInPlace,
        Mutation::LeafInPlace,
        Mutation::SuperblockInPlace,
        Mutation::HalfAPair,
        Mutation::NoOpNumber,
        Mutation::ForgetOpNumber,
        Mutation::NoRecovery,
        Mutation::LeaveTorn,
        Mutation::OldestWins,
        Mutation::CommitInFlight,
    ];
}
