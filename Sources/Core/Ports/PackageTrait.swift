#if !Ports
    #error("add the trait “Ports” to the dependency on swift-ports: the library Ports needs swift-log")
#endif
