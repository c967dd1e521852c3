@preconcurrency import CoreFoundation

/// The content of an object whose class this library adds to CoreFoundation's runtime.
protocol ObjectBody: AnyObject, Sendable {
    /// The type of the object, as CoreFoundation's functions take it.
    associatedtype Instance: AnyObject

    /// The object; nil for a body whose object is ending.
    var instance: Instance? { get set }

    /// Ends what the object does. Called with the object's last reference, too.
    func invalidate(_ instance: Instance)

    /// The text of `CFCopyDescription`.
    func description(of instance: Instance) -> String
}

/// A class in CoreFoundation's runtime. An instance is a header and a reference to its body.
struct ObjectClass<Body: ObjectBody>: Sendable {
    let typeID: CFTypeID

    init(_ name: StaticString) { typeID = registerClass(name) }

    /// An instance for a body, which has none yet. Nil when no memory is left.
    func makeInstance(_ allocator: CFAllocator?, _ body: Body) -> Body.Instance? {
        let made = _CFRuntimeCreateInstance(allocator, typeID, MemoryLayout<any ObjectBody>.size, nil)
        guard let address = made?.toOpaque() else { return nil }
        bodyPointer(address).initialize(to: body)
        let instance = Unmanaged<Body.Instance>.fromOpaque(address).takeRetainedValue()
        body.instance = instance
        return instance
    }

    /// Any instance has one.
    func body(of instance: Body.Instance) -> Body {
        unsafeDowncast(bodyPointer(Unmanaged.passUnretained(instance).toOpaque()).pointee, to: Body.self)
    }
}

private func registerClass(_ name: StaticString) -> CFTypeID {
    // CoreFoundation keeps the pointer.
    let definition = UnsafeMutablePointer<__CFRuntimeClass>.allocate(capacity: 1)
    definition.initialize(to: __CFRuntimeClass())
    definition.pointee.className = UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
    definition.pointee.finalize = { instance in
        guard let instance else { return }
        let address = Unmanaged.passUnretained(instance).toOpaque()
        bodyPointer(address).pointee.invalidate(at: address)
        bodyPointer(address).deinitialize(count: 1)
    }
    definition.pointee.copyDebugDesc = { instance in
        guard let instance else { return nil }
        let address = Unmanaged.passUnretained(instance).toOpaque()
        return .passRetained(bodyPointer(address).pointee.description(at: address).cfString)
    }
    return _CFRuntimeRegisterClass(definition)
}

private func bodyPointer(_ instance: UnsafeMutableRawPointer) -> UnsafeMutablePointer<any ObjectBody> {
    (instance + MemoryLayout<__CFRuntimeBase>.size).assumingMemoryBound(to: (any ObjectBody).self)
}

extension ObjectBody {
    // CoreFoundation's classes are no classes to Swift's runtime, whose casts fail.
    fileprivate func invalidate(at address: UnsafeRawPointer) {
        invalidate(Unmanaged<Instance>.fromOpaque(address).takeUnretainedValue())
    }

    fileprivate func description(at address: UnsafeRawPointer) -> String {
        description(of: Unmanaged<Instance>.fromOpaque(address).takeUnretainedValue())
    }
}
