// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The orderings that the protocol relies on, each with its name and its argument, so that a test
//! can remove each one and see a power cut break the volume. `FORMAT.md`, "Rules of change".
//!
//! In an ordinary build the names cost nothing. Under the feature `mutations`, for the project's
//! own tests, a volume can be mounted that leaves one of them out.

/// A barrier: everything completed before it is durable before anything after it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Data, then the size that covers it: otherwise bytes that were never written would show.
    DataBeforeSize,
    /// A slot, then the report that it is durable (sync, create, remove; without force unit
    /// access).
    SlotBeforeAnswer,
    /// What was overwritten or committed earlier, then the result of a sync that changes nothing.
    OverwriteBeforeAnswer,
    /// A file's last commit, then the slot's other member when it is closed: otherwise both members
    /// may be torn, and the file is lost.
    CommitBeforeCopy,
    /// The content of a free slot, then the new file's slot: the slot's other member, from a recent
    /// removal, may not be durable yet.
    FreeBeforeCreate,
    /// A file made with its space, then the result of create.
    CreateBeforeAnswer,
    /// A slot's last commit, then its removal, in the other member.
    CommitBeforeRemove,
    /// A file removed with its space, then the result of remove; the first member of a slot that
    /// recovery frees, then the other one.
    RemoveBeforeAnswer,
    /// What the last operation wrote, then the record of a reservation, which overwrites the
    /// means to complete it.
    NodesBeforeReserve,
    /// The record of a reservation, then its nodes: otherwise recovery could not undo them.
    ReserveBeforeNodes,
    /// What the last operation wrote, then the record of a release.
    NodesBeforeRelease,
    /// The record of a release and, if the slot becomes free, its older member, then the nodes.
    ReleaseBeforeNodes,
    /// What the last operation wrote, then the data of several new files, which may take units that
    /// it freed, and their record.
    NodesBeforeCreateMany,
    /// The data of several new files and their record, then their nodes.
    CreateManyBeforeNodes,
    /// The slots of several new files, then the report that they are durable, and the slots' other
    /// members.
    CreateManyBeforeAnswer,
    /// What the last operation wrote, then the list of removed files, which may take units that it
    /// freed, their slots and their record.
    #[cfg(feature = "grow")]
    NodesBeforeRemoveMany,
    /// The slots of removed files, which say so, and their record, then the bitmaps that free
    /// their units, and the report that they are removed.
    #[cfg(feature = "grow")]
    RemoveManyBeforeNodes,
    /// The bitmaps that free the units of removed files, and the slots' older members, then their
    /// newest ones, which say what these units are.
    #[cfg(feature = "grow")]
    BitmapsBeforeFree,
    /// What the last operation wrote, then the record of a rename.
    NodesBeforeRename,
    /// The record of a rename, then the new name: otherwise both names could stay.
    RenameBeforeName,
    /// The new name, and the old slot's older member, which is free, then the removal of the old
    /// name: otherwise both could be lost.
    NameBeforeOld,
    /// What a program that died left in the device's cache, then what recovery writes.
    CacheBeforeRecovery,
    /// What recovery wrote, then the superblock without the record.
    RecoveryBeforeClear,
    /// What a program that died left in the cache, then the mark that the volume is in use.
    CacheBeforeInUse,
    /// What the last operation wrote, then the superblock that says that the volume has a new
    /// feature: it has no record, and so removes the means to complete that operation.
    NodesBeforeFeature,
    /// What the last operation wrote, then the table node, in units that it may have freed.
    NodesBeforeTable,
    /// The table node, then the superblock that names it.
    TableBeforeFeature,
    /// The slots of a new bucket, then the size of the table that includes it.
    BucketBeforeTable,
    /// The size of the table, then the table node's other member: otherwise both may be torn.
    TableBeforeCopy,
    /// Files that left the buckets that a table loses, and the last write of the table node, then
    /// its smaller size.
    #[cfg(feature = "grow")]
    MovesBeforeShrink,
    /// What the last operation wrote, then the superblock without the marks of format 1.1.
    #[cfg(feature = "grow")]
    NodesBeforeFormat,
    /// The superblock that does without the table node, then the bitmap that frees its units.
    #[cfg(feature = "grow")]
    FormatBeforeNodes,
    /// All nodes, then the mark that the volume is clean.
    NodesBeforeClean,
    /// The first clean superblock, then the second.
    CleanBeforeClean,
    /// What released units, then the discard of them: otherwise recovery would give a leaf back to
    /// its file that the device has forgotten.
    FreeBeforeDiscard,
    /// What the last operation wrote, and the bitmaps of new groups, then the superblock of a
    /// resize, which names them.
    GroupsBeforeResize,
    /// The record of a resize, then the bitmap of the group that gains or loses units.
    ResizeBeforeNodes,
    /// The bitmap without the units past the new end, then the superblock with the smaller size.
    BitmapBeforeShrink,
    /// A resize, then its result: the device may be made smaller now.
    ResizeBeforeAnswer,
}

/// A deliberate violation of the protocol.
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
    /// The record of new files in a list is not removed when they are durable.
    KeepList,
    /// What a torn write left of a slot's member stays until the next write to it.
    KeepHalves,
    /// A slot becomes free in one member only.
    HalfFree,
    /// Recovery does not rewrite a torn bitmap member.
    LeaveTorn,
    /// The older valid member wins.
    OldestWins,
    /// The superblock says only after the first node of a feature that the volume has it.
    LateFeature,
    /// The table node's new size is written in one member only.
    HalfATable,
    /// A look-up does not look where a split that was cut left a name.
    ForgetParent,
    /// Buckets are added together although files leave their buckets for several of them.
    SplitPastFiles,
    /// A commit includes what is still in flight.
    CommitInFlight,
}

#[cfg(feature = "mutations")]
impl Order {
    /// All of them.
    pub const ALL: [Order; 39] = [
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
        Order::NodesBeforeCreateMany,
        Order::CreateManyBeforeNodes,
        Order::CreateManyBeforeAnswer,
        Order::NodesBeforeRemoveMany,
        Order::RemoveManyBeforeNodes,
        Order::BitmapsBeforeFree,
        Order::NodesBeforeRename,
        Order::RenameBeforeName,
        Order::NameBeforeOld,
        Order::CacheBeforeRecovery,
        Order::RecoveryBeforeClear,
        Order::CacheBeforeInUse,
        Order::NodesBeforeFeature,
        Order::NodesBeforeTable,
        Order::TableBeforeFeature,
        Order::BucketBeforeTable,
        Order::TableBeforeCopy,
        Order::MovesBeforeShrink,
        Order::NodesBeforeFormat,
        Order::FormatBeforeNodes,
        Order::NodesBeforeClean,
        Order::CleanBeforeClean,
        Order::FreeBeforeDiscard,
        Order::GroupsBeforeResize,
        Order::ResizeBeforeNodes,
        Order::BitmapBeforeShrink,
        Order::ResizeBeforeAnswer,
    ];
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// All except the barriers.
    pub const OTHERS: [Mutation; 18] = [
        Mutation::SlotInPlace,
        Mutation::BitmapInPlace,
        Mutation::LeafInPlace,
        Mutation::SuperblockInPlace,
        Mutation::HalfAPair,
        Mutation::NoOpNumber,
        Mutation::ForgetOpNumber,
        Mutation::NoRecovery,
        Mutation::KeepList,
        Mutation::KeepHalves,
        Mutation::HalfFree,
        Mutation::LeaveTorn,
        Mutation::OldestWins,
        Mutation::LateFeature,
        Mutation::HalfATable,
        Mutation::ForgetParent,
        Mutation::SplitPastFiles,
        Mutation::CommitInFlight,
    ];
}
