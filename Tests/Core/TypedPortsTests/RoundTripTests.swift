import FoundationCoding
import OwnThread
import Testing
import TypedPorts

@Suite(.ownThread) struct RoundTripTests {
    static let coders: [any MessageCoder] = [CBORCoder(), JSONCoder()]

    @Test(arguments: coders) func `values of all kinds come back`(_ coder: any MessageCoder) throws {
        #expect(
            try roundTrip(Person(id: 1, name: "Adelaide", value: 1.5), coder)
                == Person(id: 1, name: "Adelaide", value: 1.5))
        var all = Everything()
        if coder is JSONCoder { all.byName[""]?.value = 0 }
        #expect(try roundTrip(all, coder) == all)
    }

    @Test(arguments: coders) func `single values come back`(_ coder: any MessageCoder) throws {
        #expect(try roundTrip(7, coder) == 7)
        #expect(try roundTrip("text", coder) == "text")
        #expect(try roundTrip(Int?.none, coder) == nil)
        #expect(try roundTrip([Int](), coder) == [])
        #expect(try roundTrip([UInt8](0...255), coder) == [UInt8](0...255))
        #expect(try roundTrip(Kind.first, coder) == .first)
        #expect(try roundTrip(Choice.none, coder) == Choice.none)
    }

    @Test(arguments: coders) func `arrays and maps of any length come back`(_ coder: any MessageCoder) throws {
        for count in [0, 1, 22, 23, 24, 25, 255, 256, 1000] {
            let people = (0..<count).map { Person(id: Int32($0), name: "n\($0)", value: Double($0) / 3) }
            #expect(try roundTrip(people, coder) == people)
            let byName = Dictionary(uniqueKeysWithValues: people.map { ($0.name, $0) })
            #expect(try roundTrip(byName, coder) == byName)
        }
    }

    @Test(arguments: coders) func `classes come back with their superclass`(_ coder: any MessageCoder) throws {
        let dog = Dog()
        (dog.name, dog.legs) = ("Lassie", 3)
        let sameDog = try roundTrip(dog, coder)
        #expect(sameDog.name == "Lassie")
        #expect(sameDog.legs == 3)
        let cat = Cat()
        (cat.name, cat.lives, cat.legs) = ("Felix", 8, 2)
        let sameCat = try roundTrip(cat, coder)
        #expect(sameCat.name == "Felix")
        #expect(sameCat.lives == 8)
        #expect(sameCat.legs == 2)
    }

    @Test(arguments: coders) func `containers that are filled by turns come back`(_ coder: any MessageCoder) throws {
        let value = Interleaved(
            pairs: [
                "few": ["a": 1, "b": 2], "none": [:],
                "many": Dictionary(uniqueKeysWithValues: (0..<60).map { ("k\($0)", $0 * 1000) }),
            ], rows: [[], Array(0..<30), [1], Array(repeating: 70000, count: 25)])
        #expect(try roundTrip(value, coder) == value)
        #expect(try roundTrip([value, value], coder) == [value, value])
    }
}
