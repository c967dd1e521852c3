#!/usr/bin/env python3
"""Asks the typed server of Examples/Dictionary what a word means: client.py WORD

Speaks the wire format of swift-ports with Python's standard library alone. The page Wire format explains each step.
"""

import os, re, secrets, select, shutil, socket, struct, sys

NAME, REQUEST = "com.example.dictionary", "Lookup"


# Step 1: the registry.

def directory():
    if "PORTS_DIRECTORY" in os.environ:
        return os.environ["PORTS_DIRECTORY"]
    if os.environ.get("XDG_RUNTIME_DIR"):
        return os.environ["XDG_RUNTIME_DIR"] + "/ports"
    return f"/tmp/ports-{os.geteuid()}"


def file_name(name):
    """The name's folder. A longer one than 200 characters ends in a digest, which this client leaves out."""
    encoded = re.sub(rb"[^A-Za-z0-9._-]", lambda byte: b"%%%02x" % byte[0][0], name.encode()).decode()
    return re.sub(r"^\.", "%2e", encoded)


def entry(registry, name):
    folder = f"{registry}/names/{file_name(name)}"
    try:
        with open(f"{folder}/{os.listdir(folder)[0]}", encoding="utf-8") as file:
            return dict(line.split(" ", 1) for line in file.read().splitlines())
    except (FileNotFoundError, IndexError):
        sys.exit(f"nobody has the name {name} in {registry}")


def listen(path, kind):
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen()
    return listener


# Step 2: the control connection.

def hello(process):
    return struct.pack("<IB3x16sII", 0x54525053, 3, process, 0, 0)


def connect_control(path, own, owner):
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(path)
    control.send(hello(own))
    magic, version, process, origin, _ = struct.unpack("<IB3x16sII", control.recv(256)[:32])
    if magic != 0x54525053 or version != 3 or process != owner:
        sys.exit("another process, or another version, has the control socket")
    return control, origin


# Step 3: ZMTP 3.0, the protocol of ZeroMQ's sockets.

def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("the connection has ended")
        data += more
    return data


def read_frame(connection):
    """Returns the frame's flags and its bytes."""
    flags = read(connection, 1)[0]
    size = struct.unpack(">Q", read(connection, 8))[0] if flags & 2 else read(connection, 1)[0]
    return flags, read(connection, size)


def shake_hands(connection, socket_type):
    connection.sendall(b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    read(connection, 64)
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type
    connection.sendall(bytes([4, len(ready)]) + ready)
    read_frame(connection)


def send_frame(connection, data):
    connection.sendall(b"\x02" + struct.pack(">Q", len(data)) + data)


# Step 4: messages.

def right(registry, process, number):
    path = registry.encode()
    return struct.pack("<BBHIQ16sQQ", 1, 0, len(path), 1000, number, process, 64 << 20, 0) + path


def request(message_id, number, origin, reply_right, component):
    header = struct.pack("<BBBBIIIQI", 0xB7, 1, 1, len(reply_right), message_id, 1, origin, number, len(component))
    return header + reply_right + component


def components(frame):
    """Returns the kind, the id, the request's number, and the components of a reply or a failure."""
    _, _, kind, right_size, message_id, count, _, number = struct.unpack_from("<BBBBIIIQ", frame)
    sizes = struct.unpack_from(f"<{count}I", frame, 24)
    offset, found = 24 + 4 * count + right_size, []
    for size in sizes:
        size &= 0x7FFFFFFF
        found.append(frame[offset:offset + size])
        offset += size
    return kind, message_id, number, found


# Step 5: typed requests.

def request_id(name):
    """The FNV-1a hash of the request's name, in 32 bits."""
    hashed = 2166136261
    for byte in name.encode():
        hashed = (hashed ^ byte) * 16777619 & 0xFFFFFFFF
    return hashed


def head(major, count):
    if count < 24:
        return bytes([major << 5 | count])
    return bytes([major << 5 | 26]) + struct.pack(">I", count)


def encode(value):
    """CBOR, as far as this request needs it."""
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(5, len(value)) + b"".join(encode(key) + encode(item) for key, item in value.items())


def decode_text(data):
    size = {24: 1, 25: 2, 26: 4, 27: 8}.get(data[0] & 31, 0)
    return data[1 + size:].decode()


def ask(word):
    registry = directory()
    server = entry(registry, NAME)
    owner = int(server["process"], 16).to_bytes(16, "little")
    own = secrets.token_bytes(16)
    folder = f"{registry}/{int.from_bytes(own, 'little'):032x}"
    os.mkdir(folder, 0o700)
    try:
        listeners = listen(f"{folder}/c", socket.SOCK_SEQPACKET), listen(f"{folder}/1", socket.SOCK_STREAM)
        control, origin = connect_control(f"{registry}/{server['process']}/c", own, owner)
        control.send(struct.pack("<BQ", 1, int(server["port"])))  # watch the port

        port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        port.connect(f"{registry}/{server['process']}/{server['port']}")
        shake_hands(port, b"PUSH")
        send_frame(port, request(
            request_id(REQUEST), 1, origin if int(server["bytes"]) else 0, right(registry, own, 1),
            encode({"word": word, "delay": 0})))

        while True:
            ready, _, _ = select.select([control, listeners[1]], [], [], 10)
            if not ready:
                sys.exit("no reply within ten seconds")
            if listeners[1] in ready:
                replies, _ = listeners[1].accept()
                shake_hands(replies, b"PULL")
                kind, message_id, number, found = components(read_frame(replies)[1])
                if number != 1:
                    sys.exit("the reply is not for this request")
                if kind == 2:
                    print(decode_text(found[0]))
                    return
                # Of a reply that is too large come the sizes, as numbers.
                sys.exit("the reply is too large" if message_id == 1 else f"the request has failed: {found[0].decode()}")
            packet = control.recv(1024)
            if not packet:
                sys.exit("the server has ended")
            if packet[0] in (2, 3, 9):
                sys.exit("the port has ended, or the request was dropped or refused")
    finally:
        shutil.rmtree(folder)


ask(sys.argv[1] if len(sys.argv) > 1 else "port")
