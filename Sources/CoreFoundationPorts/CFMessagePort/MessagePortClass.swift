@preconcurrency import CoreFoundation

/// The class of CFMessagePort in CoreFoundation's runtime. An instance is a header and a pointer to a ``MessagePortBody``.
enum MessagePortClass {
    static let typeID: CFTypeID = {
        // CoreFoundation keeps the pointer.
        let definition = UnsafeMutablePointer<__CFRuntimeClass>.allocate(capacity: 1)
        definition.initialize(to: __CFRuntimeClass())
        let name: StaticString = "CFMessagePort"
        definition.pointee.className = UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
        definition.pointee.finalize = { instance in
            guard let instance else { return }
            let port = CFMessagePort.of(instance)
            port.body.invalidate(port)
            port.bodyPointer.deinitialize(count: 1)
        }
        definition.pointee.copyDebugDesc = { instance in
            guard let instance else { return nil }
            let port = CFMessagePort.of(instance)
            return Unmanaged.passRetained(port.body.description(of: port).cfString)
        }
        return _CFRuntimeRegisterClass(definition)
    }()

    /// An instance for a body, which has none yet. Nil when no memory is left.
    static func makeInstance(_ allocator: CFAllocator?, _ body: MessagePortBody) -> CFMessagePort? {
        let instance = _CFRuntimeCreateInstance(allocator, typeID, MemoryLayout<MessagePortBody>.size, nil)
        guard let instance = instance?.takeRetainedValue() else { return nil }
        let port = CFMessagePort.of(instance)
        port.bodyPointer.initialize(to: body)
        body.instance = port
        return port
    }
}

extension CFMessagePort {
    /// CoreFoundation's classes are no classes to Swift's runtime, whose casts fail.
    fileprivate static func of(_ instance: CFTypeRef) -> CFMessagePort {
        Unmanaged.fromOpaque(Unmanaged.passUnretained(instance).toOpaque()).takeUnretainedValue()
    }

    /// Any instance has one.
    var body: MessagePortBody { bodyPointer.pointee }

    fileprivate var bodyPointer: UnsafeMutablePointer<MessagePortBody> {
        (Unmanaged.passUnretained(self).toOpaque() + MemoryLayout<__CFRuntimeBase>.size)
            .assumingMemoryBound(to: MessagePortBody.self)
    }
}
