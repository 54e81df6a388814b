//! Tests of small directories, driven by hand: the planned copies, and the valid parts afterwards.

use super::*;

const DEVICE: SpaceId = SpaceId(1);
const PEER: SpaceId = SpaceId(2);

fn filled(directory: &mut Directory, to: u64, space: SpaceId, block: Block) -> Transfers {
    let (mut pending, mut transfers) = (vec![], Transfers::new());
    if directory.covering(space, &block) != Some(ReplicaId(to)) {
        directory.add(ReplicaId(to), space, block);
    }
    directory.fill(ReplicaId(to), &block, &mut (to * 100), &mut pending, &mut transfers);
    transfers.iter().for_each(|transfer| directory.arrived(transfer));
    transfers
}

#[test]
fn copies_come_from_the_nearest_valid_replica() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[100]), 8);
    let half = Block::interval(0..50);
    assert_eq!(filled(&mut directory, 1, DEVICE, half)[0].from, ReplicaId::HOME);
    directory.written(ReplicaId(1), &half);
    assert_eq!(directory.missing_bytes(SpaceId::HOST, &Block::interval(0..100)), 400);
    let transfers = filled(&mut directory, 2, PEER, Block::interval(25..75));
    let sources: Vec<_> = transfers.iter().map(|t| (t.from, t.block.range(0))).collect();
    assert_eq!(sources, [(ReplicaId(1), 25..50), (ReplicaId::HOME, 50..75)], "device to device, the rest from home");
}

#[test]
fn parts_valid_in_the_same_replicas_are_united() {
    let at = |n: usize| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    for (shape, writes) in [(&[1000][..], false), (&[1000], true), (&[60, 60], false), (&[60, 60], true)] {
        let whole = Block::whole(shape);
        let parts_after = |n: usize| {
            let mut directory = Directory::new(DataId(0), whole, 8);
            directory.add(ReplicaId(1), DEVICE, whole);
            for n in 0..n {
                let range = |(d, len): (usize, &usize)| {
                    let first = at(n + 77 * d) % (len - 19);
                    first..first + 20
                };
                let block = Block::new(&shape.iter().enumerate().map(range).collect::<Vec<_>>());
                filled(&mut directory, 1, DEVICE, block);
                if writes {
                    directory.written(if n % 2 == 0 { ReplicaId::HOME } else { ReplicaId(1) }, &block);
                    filled(&mut directory, 1, DEVICE, whole);
                    let (mut pending, mut transfers) = (vec![], Transfers::new());
                    directory.fill(ReplicaId::HOME, &whole, &mut (n as u64), &mut pending, &mut transfers);
                    transfers.iter().for_each(|transfer| directory.arrived(transfer));
                }
            }
            directory.holders.len()
        };
        let (few, many) = (parts_after(500), parts_after(4000));
        assert!(many <= few.max(160), "{few} parts after 500 uses, {many} after 4000");
    }
}

#[test]
fn part_under_way_is_not_copied_twice() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[100]), 8);
    let block = Block::interval(0..100);
    directory.add(ReplicaId(1), DEVICE, block);
    let (mut pending, mut transfers) = (vec![], Transfers::new());
    directory.fill(ReplicaId(1), &block, &mut 7, &mut pending, &mut transfers);
    directory.fill(ReplicaId(1), &block, &mut 8, &mut pending, &mut transfers);
    assert_eq!((transfers.len(), pending), (1, vec![CopyId(7)]));
}

#[test]
fn replicas_that_leave_together_do_not_rely_on_each_other() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[10]), 8);
    let block = Block::interval(0..10);
    filled(&mut directory, 1, DEVICE, block);
    directory.written(ReplicaId(1), &block);
    filled(&mut directory, 2, PEER, block);
    let mut transfers = Transfers::new();
    for id in [1, 2].map(ReplicaId) {
        directory.leave(id);
        directory.write_back(id, &mut 9, &mut transfers);
    }
    assert_eq!(transfers.iter().map(|t| t.from).collect::<Vec<_>>(), [ReplicaId(2)]);
}

#[test]
fn adopted_replica_is_the_only_valid_one_and_takes_no_bytes() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[10]), 8);
    directory.adopt(ReplicaId(1), DEVICE);
    let part = Block::interval(2..5);
    assert_eq!(directory.covering(DEVICE, &part), Some(ReplicaId(1)));
    assert_eq!(directory.valid_in([SpaceId::HOST, DEVICE].into_iter(), &part), [DEVICE]);
    assert_eq!(directory.bytes_of(directory.replica(ReplicaId(1))), 0);
    assert_eq!(filled(&mut directory, 2, PEER, part)[0].from, ReplicaId(1));
    assert_eq!(directory.bytes_of(directory.replica(ReplicaId(2))), 24);
}

#[test]
fn alias_is_filled_from_home_and_takes_no_bytes() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[10]), 8);
    for (id, space) in [(1, DEVICE), (2, PEER)] {
        directory.alias(ReplicaId(id), space);
    }
    let part = Block::interval(2..5);
    assert!(directory.is_unified());
    assert_eq!(directory.valid_in([SpaceId::HOST, DEVICE].into_iter(), &part), [SpaceId::HOST]);
    assert_eq!(filled(&mut directory, 1, DEVICE, part)[0].from, ReplicaId::HOME);
    directory.written(ReplicaId(1), &part);
    assert_eq!(filled(&mut directory, 2, PEER, part)[0].from, ReplicaId(1));
    assert_eq!(directory.bytes_of(directory.replica(ReplicaId(2))), 0);
}

#[test]
fn late_write_back_does_not_revive_overwritten_data() {
    let mut directory = Directory::new(DataId(0), Block::whole(&[10]), 8);
    let block = Block::interval(0..10);
    filled(&mut directory, 1, DEVICE, block);
    directory.written(ReplicaId(1), &block);
    assert!(directory.holds_the_only_copy(ReplicaId(1)));
    let mut transfers = Transfers::new();
    directory.write_back(ReplicaId(1), &mut 9, &mut transfers);
    directory.written(ReplicaId(1), &block);
    directory.arrived(&transfers[0]);
    assert_eq!(directory.valid_in([SpaceId::HOST, DEVICE].into_iter(), &block), [DEVICE]);
}
