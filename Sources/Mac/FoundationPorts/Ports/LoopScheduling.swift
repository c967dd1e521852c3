import CoreFoundation
import CoreFoundationPorts
import Foundation
import Ports
import RunLoopLocks

// This library's own ports in Foundation's loops, without Foundation's messages.

extension MachPort {
    /// Adds the port to a mode of a Foundation loop, which then handles the port's messages. The loop keeps the port until
    /// the port is removed or invalid. A run that returns after a source is handled returns after one turn.
    ///
    /// - Parameters:
    ///   - loop: The loop.
    ///   - mode: The mode.
    ///   - limit: The most messages in one turn.
    /// - Throws: `PortError` when the port is invalid, or no descriptor is left.
    @_disfavoredOverload
    public func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode, atMost limit: Int = 64) throws(PortError) {
        try LoopScheduling.shared.add(self, loop, mode, limit)
    }

    /// Removes the port from a Foundation loop's mode.
    @_disfavoredOverload
    public func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        LoopScheduling.shared.remove(self, loop, mode)
    }
}

extension LocalMessagePort {
    /// Adds the port to a mode of a Foundation loop, which then handles the port's requests. The loop keeps the port until
    /// the port is removed or invalid. A run that returns after a source is handled returns after one turn.
    ///
    /// - Parameters:
    ///   - loop: The loop.
    ///   - mode: The mode.
    ///   - limit: The most requests in one turn.
    /// - Throws: `PortError` when the port is invalid, or no descriptor is left.
    @_disfavoredOverload
    public func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode, atMost limit: Int = 64) throws(PortError) {
        try LoopScheduling.shared.add(self, loop, mode, limit)
    }

    /// Removes the port from a Foundation loop's mode.
    @_disfavoredOverload
    public func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        LoopScheduling.shared.remove(self, loop, mode)
    }
}

/// The sources of ports in Foundation's loops. A source keeps its port, and is kept here while a mode has it.
private final class LoopScheduling: Sendable {
    static let shared = LoopScheduling()

    private struct Place: Hashable {
        let loop: ObjectIdentifier
        let mode: RunLoop.Mode
    }

    private struct Entry {
        let source: RunLoopPortSource
        var watch: InvalidationWatch?
        var places: Set<Place> = []
    }

    private let entries = Lock<[PortID: Entry]>([:])

    func add(_ end: some ReceivingEnd, _ runLoop: RunLoop, _ mode: RunLoop.Mode, _ limit: Int) throws(PortError) {
        try PortError.check("atMost", limit, in: 1...Int.max)
        let (id, loop) = (end.machPort.id, runLoop.getCFRunLoop())
        let place = Place(loop: ObjectIdentifier(loop), mode: mode)
        let source: RunLoopPortSource
        if let known = insert(place, id, nil) {
            source = known
        } else {
            let made = try end.makeSource(atMost: limit)
            source = insert(place, id, made) ?? made
            if source === made { watch(end.machPort.sendRight, id) }
        }
        source.add(to: loop, forMode: mode.cfMode)
        LoopEnd.note(end, in: runLoop, mode) { [self] end, loop in remove(end, loop, mode) }
        UnservedMainLoop.note(runLoop, mode)
    }

    private func watch(_ right: MachPort.SendRight, _ id: PortID) {
        let watch = InvalidationWatch(right) { [self] in _ = entries.withLock { $0.removeValue(forKey: id) } }
        let isKept = entries.withLock { entries in
            entries[id]?.watch = watch
            return entries[id] != nil
        }
        if !isKept { watch.cancel() }
    }

    private func insert(_ place: Place, _ id: PortID, _ made: RunLoopPortSource?) -> RunLoopPortSource? {
        entries.withLock { entries in
            if entries[id] == nil, let made { entries[id] = Entry(source: made) }
            entries[id]?.places.insert(place)
            return entries[id]?.source
        }
    }

    func remove(_ end: some ReceivingEnd, _ loop: RunLoop, _ mode: RunLoop.Mode) {
        let (id, loop) = (end.machPort.id, loop.getCFRunLoop())
        let place = Place(loop: ObjectIdentifier(loop), mode: mode)
        // Released after the lock: the source may hold the last reference to the port.
        let (source, watch) = entries.withLock { entries -> (RunLoopPortSource?, InvalidationWatch?) in
            guard let entry = entries[id], entry.places.contains(place) else { return (nil, nil) }
            entries[id]?.places.remove(place)
            guard entries[id]?.places.isEmpty == true else { return (entry.source, nil) }
            entries[id] = nil
            return (entry.source, entry.watch)
        }
        watch?.cancel()
        source?.remove(from: loop, forMode: mode.cfMode)
    }
}
