-- SPDX-License-Identifier: GPL-2.0
--
-- MPA Rev 1 and 2 (RFC 5044, RFC 6581) with the DDP and RDMAP headers in its
-- FPDUs, and DDP stream sessions over SCTP (RFC 5043, RFC 6581), for Wireshark
-- and tshark 4.0:
--
--     tshark -X lua_script:mpa2.lua -r FILE
--
-- A TCP connection is recognised by its first startup frame, on any port, and
-- chunks of SCTP by their payload protocol identifier. Layouts:
-- Documentation/wire-formats.rst; how to use this: Documentation/wireshark.rst.

local bit = bit or bit32

local KEY_LEN = 16
local HEADER_LEN = 20
local MAX_PD_LENGTH = 512
local ENHANCED_LEN = 4
local NOT_NEGOTIATED = 0x3FFF

local LENGTH_LEN = 2
local CRC_LEN = 4
-- ULPDU_Length and the two control octets: enough to tell an FPDU from others.
local FPDU_HEAD_LEN = 4
local MAX_ULPDU_LENGTH = 64768
local READ_REQUEST_LEN = 28

local OP_WRITE, OP_READ_REQUEST, OP_SEND, OP_TERMINATE = 0, 1, 3, 7
local OPCODES = {
    [0] = "RDMA Write", [1] = "RDMA Read Request", [2] = "RDMA Read Response",
    [3] = "Send", [4] = "Send with Invalidate", [5] = "Send with Solicited Event",
    [6] = "Send with Solicited Event and Invalidate", [7] = "Terminate",
}
-- The RTR kinds by opcode, in the words of the enhanced data's flags.
local RTR_KINDS = {
    [OP_SEND] = "zero-length Send", [OP_WRITE] = "zero-length RDMA Write",
    [OP_READ_REQUEST] = "zero-length RDMA Read",
}

-- Chunks of SCTP: payload protocol identifiers, and what begins their user data.
local PPID_SEGMENT, PPID_CONTROL = 16, 17
local SSN_LEN, FUNCTION_LEN = 2, 2

local FN_INITIATE, FN_REJECT, FN_TERMINATE = 1, 3, 4
local FN_ENHANCED_INITIATE, FN_ENHANCED_REJECT = 5, 7
local FUNCTIONS = {
    [1] = "DDP Stream Session Initiate", [2] = "DDP Stream Session Accept",
    [3] = "DDP Stream Session Reject", [4] = "DDP Stream Session Terminate",
    [5] = "Enhanced DDP Stream Session Initiate", [6] = "Enhanced DDP Stream Session Accept",
    [7] = "Enhanced DDP Stream Session Reject", [0xFFFF] = "experimental session control",
}

-- Some take this for the Send.
local NO_ULPDU = "FPDU without ULPDU"

local CRC_BAD, CRC_GOOD, CRC_OFF, CRC_UNKNOWN = 0, 1, 2, 3
local CRC_STATES = {
    [CRC_BAD] = "bad", [CRC_GOOD] = "good", [CRC_OFF] = "not in force",
    [CRC_UNKNOWN] = "unknown, a startup frame is not in the capture",
}

local LAYERS = { [0] = "RDMAP", [1] = "DDP", [2] = "MPA" }
-- Error type and codes by 16 * layer + type.
local ERROR_TYPES = {
    [0x00] = "local catastrophic error",
    [0x01] = "remote protection error",
    [0x02] = "remote operation error",
    [0x10] = "local catastrophic error",
    [0x11] = "tagged buffer error",
    [0x12] = "untagged buffer error",
    [0x13] = "lower layer's error",
    [0x20] = "MPA error",
}
local ERROR_CODES = {
    [0x00] = {},
    [0x01] = {
        [0x00] = "invalid STag", [0x01] = "base or bounds violation",
        [0x02] = "access rights violation", [0x03] = "STag of another stream",
        [0x04] = "TO wrap", [0x09] = "STag cannot be invalidated", [0xFF] = "unspecified",
    },
    [0x02] = {
        [0x05] = "invalid RDMAP version", [0x06] = "unexpected opcode",
        [0x07] = "stream catastrophic", [0x08] = "global catastrophic",
        [0x09] = "STag cannot be invalidated", [0xFF] = "unspecified",
    },
    [0x10] = {},
    [0x11] = {
        [0x00] = "invalid STag", [0x01] = "base or bounds violation",
        [0x02] = "STag of another stream", [0x03] = "TO wrap", [0x04] = "invalid DDP version",
    },
    [0x12] = {
        [0x01] = "invalid QN", [0x02] = "no buffer for this MSN", [0x03] = "MSN out of range",
        [0x04] = "invalid MO", [0x05] = "message too long for its buffer",
        [0x06] = "invalid DDP version",
    },
    [0x20] = {
        [0x01] = "TCP connection lost or closed", [0x02] = "CRC mismatch",
        [0x03] = "Marker and ULPDU_Length disagree", [0x04] = "invalid Request or Reply frame",
        [0x05] = "local catastrophic error", [0x06] = "insufficient IRD",
        [0x07] = "no matching RTR",
    },
}

-- ---- fields ----

local mpa2 = Proto("mpa2", "MPA Rev 2 with DDP and RDMAP")
local F = {}
local order = {}
local function field(key, made)
    F[key] = made
    order[#order + 1] = made
end
local function flag(key, abbrev, name, width, mask)
    field(key, ProtoField.bool(abbrev, name, width, { "1", "0" }, mask))
end

field("request", ProtoField.none("mpa2.request", "MPA Request"))
field("reply", ProtoField.none("mpa2.reply", "MPA Reply"))
field("key", ProtoField.string("mpa2.key", "Key"))
field("flags", ProtoField.uint8("mpa2.flags", "Flags", base.HEX))
flag("m", "mpa2.flags.m", "M: Markers wanted", 8, 0x80)
flag("c", "mpa2.flags.c", "C: CRC wanted", 8, 0x40)
flag("r", "mpa2.flags.r", "R: reject", 8, 0x20)
flag("s", "mpa2.flags.s", "S: enhanced data", 8, 0x10)
field("res", ProtoField.uint8("mpa2.flags.res", "Res", base.HEX, nil, 0x0F))
field("res1", ProtoField.uint8("mpa2.flags.res", "Res", base.HEX, nil, 0x1F))
field("rev", ProtoField.uint8("mpa2.rev", "Rev"))
field("pd_length", ProtoField.uint16("mpa2.pd_length", "PD_Length"))
field("enhanced", ProtoField.none("mpa2.enhanced", "Enhanced data"))
flag("a", "mpa2.a", "A: peer-to-peer", 16, 0x8000)
flag("b", "mpa2.b", "B: zero-length Send RTR", 16, 0x4000)
field("ird", ProtoField.uint16("mpa2.ird", "IRD", base.DEC, nil, 0x3FFF))
flag("cw", "mpa2.c", "C: zero-length RDMA Write RTR", 16, 0x8000)
flag("d", "mpa2.d", "D: zero-length RDMA Read RTR", 16, 0x4000)
field("ord", ProtoField.uint16("mpa2.ord", "ORD", base.DEC, nil, 0x3FFF))
field("private_data", ProtoField.bytes("mpa2.private_data", "ULP private data"))

field("fpdu", ProtoField.none("mpa2.fpdu", "FPDU"))
field("rtr", ProtoField.string("mpa2.rtr", "RTR"))
field("ulpdu_length", ProtoField.uint16("mpa2.ulpdu_length", "ULPDU_Length"))
field("ddp", ProtoField.uint8("mpa2.ddp", "DDP control", base.HEX))
flag("tagged", "mpa2.ddp.t", "T: tagged", 8, 0x80)
flag("last", "mpa2.ddp.l", "L: last segment", 8, 0x40)
field("ddp_rsvd", ProtoField.uint8("mpa2.ddp.rsvd", "Rsvd", base.HEX, nil, 0x3C))
field("dv", ProtoField.uint8("mpa2.ddp.dv", "DV", base.DEC, nil, 0x03))
field("rdmap", ProtoField.uint8("mpa2.rdmap", "RDMAP control", base.HEX))
field("rv", ProtoField.uint8("mpa2.rdmap.rv", "RV", base.DEC, nil, 0xC0))
field("rdmap_rsvd", ProtoField.uint8("mpa2.rdmap.rsvd", "Rsvd", base.HEX, nil, 0x30))
field("opcode", ProtoField.uint8("mpa2.rdmap.opcode", "Opcode", base.HEX, OPCODES, 0x0F))
field("stag", ProtoField.uint32("mpa2.ddp.stag", "STag", base.HEX))
field("to", ProtoField.uint64("mpa2.ddp.to", "TO", base.HEX))
field("inv_stag", ProtoField.uint32("mpa2.ddp.inv_stag", "Invalidate STag", base.HEX))
field("qn", ProtoField.uint32("mpa2.ddp.qn", "QN"))
field("msn", ProtoField.uint32("mpa2.ddp.msn", "MSN"))
field("mo", ProtoField.uint32("mpa2.ddp.mo", "MO"))
field("sink_stag", ProtoField.uint32("mpa2.read.sink_stag", "Sink STag", base.HEX))
field("sink_to", ProtoField.uint64("mpa2.read.sink_to", "Sink TO", base.HEX))
field("read_size", ProtoField.uint32("mpa2.read.size", "Read size"))
field("source_stag", ProtoField.uint32("mpa2.read.source_stag", "Source STag", base.HEX))
field("source_to", ProtoField.uint64("mpa2.read.source_to", "Source TO", base.HEX))
field("payload", ProtoField.bytes("mpa2.payload", "Payload"))
field("layer", ProtoField.uint8("mpa2.terminate.layer", "Layer", base.DEC, LAYERS, 0xF0))
field("etype", ProtoField.uint8("mpa2.terminate.type", "Type", base.DEC, nil, 0x0F))
field("code", ProtoField.uint8("mpa2.terminate.code", "Code", base.HEX))
field("error", ProtoField.string("mpa2.terminate.error", "Error"))
flag("term_m", "mpa2.terminate.m", "M: DDP Segment Length is valid", 8, 0x80)
flag("term_d", "mpa2.terminate.d", "D: DDP header follows", 8, 0x40)
flag("term_r", "mpa2.terminate.r", "R: RDMAP header follows", 8, 0x20)
field("term_length", ProtoField.uint16("mpa2.terminate.ddp_length", "DDP Segment Length"))
field("term_ddp", ProtoField.bytes("mpa2.terminate.ddp_header", "Terminated DDP header"))
field("term_rdmap", ProtoField.bytes("mpa2.terminate.rdmap_header", "Terminated RDMAP header"))
field("pad", ProtoField.bytes("mpa2.pad", "Pad"))
field("crc", ProtoField.uint32("mpa2.crc", "CRC", base.HEX))
field("crc_calculated", ProtoField.uint32("mpa2.crc.calculated", "Calculated CRC", base.HEX))
field("crc_status", ProtoField.uint8("mpa2.crc.status", "CRC status", base.DEC, CRC_STATES))

field("control", ProtoField.none("mpa2.control", "DDP Stream Session Control"))
field("segment", ProtoField.none("mpa2.segment", "DDP segment"))
field("ssn", ProtoField.uint16("mpa2.ssn", "DDP-SSN"))
field("fn", ProtoField.uint16("mpa2.function", "Function code", base.HEX, FUNCTIONS))

field("other", ProtoField.bytes("mpa2.other", "Not dissected"))
mpa2.fields = order

local E = {}
local experts = {}
local function expert_info(key, text, group, severity)
    E[key] = ProtoExpert.new("mpa2.expert." .. key, text, group, severity)
    experts[#experts + 1] = E[key]
end
local MALFORMED, PROTOCOL = expert.group.MALFORMED, expert.group.PROTOCOL
local ERROR, WARN, NOTE = expert.severity.ERROR, expert.severity.WARN, expert.severity.NOTE
expert_info("cut", "The capture does not have all of this", MALFORMED, WARN)
expert_info("short", "Too short for its header", MALFORMED, ERROR)
expert_info("pd_length", "PD_Length is above 512", MALFORMED, ERROR)
expert_info("rev", "Rev is neither 1 nor 2", PROTOCOL, WARN)
expert_info("no_enhanced", "S is set, but there is no room for enhanced data", MALFORMED, ERROR)
expert_info("ulpdu_length", "ULPDU_Length is not 1 to 64768", MALFORMED, ERROR)
expert_info("header", "Wrong version or opcode", MALFORMED, ERROR)
expert_info("no_rtr", "The initiator's first FPDU is not an RTR", PROTOCOL, WARN)
expert_info("crc", "Bad CRC", expert.group.CHECKSUM, ERROR)
expert_info("terminate", "Terminate", PROTOCOL, NOTE)
expert_info("reject", "Reject", PROTOCOL, NOTE)
expert_info("ordered", "Ordered DATA", PROTOCOL, WARN)
expert_info("fn", "Unknown function code", PROTOCOL, ERROR)
expert_info("pd_long", "More than 512 octets of private data", MALFORMED, ERROR)
expert_info("pd_short", "No room for enhanced data", MALFORMED, ERROR)
expert_info("terminate_pd", "Private data in a Terminate", PROTOCOL, WARN)
expert_info("other", "Neither a startup frame nor an FPDU", PROTOCOL, WARN)
mpa2.experts = experts

-- ---- bounded reading ----

-- A reader puts fields into the tree one after the other and never runs past
-- its end: what is not there is not added, and `short` says so from then on.
local Reader = {}
Reader.__index = Reader

local function reader(tvb, at, stop)
    return setmetatable({ tvb = tvb, at = at, stop = math.min(stop, tvb:len()) }, Reader)
end

-- The next `size` octets without going on, or nil.
function Reader:peek(size)
    if self.short or self.at + size > self.stop then
        self.short = true
        return nil
    end
    return self.tvb(self.at, size)
end

-- Adds the next `size` octets as `key`; returns range and tree item, or nil.
function Reader:take(tree, key, size)
    local range = self:peek(size)
    if not range then
        return nil
    end
    self.at = self.at + size
    return range, tree:add(F[key], range)
end

-- Adds all octets up to the end, if there are any; returns how many.
function Reader:rest(tree, key)
    local size = self.short and 0 or math.max(self.stop - self.at, 0)
    if size > 0 then
        self:take(tree, key, size)
    end
    return size
end

-- ---- CRC32c ----

local crc_table = {}
for value = 0, 255 do
    local crc = value
    for _ = 1, 8 do
        local low = bit.band(crc, 1)
        crc = bit.rshift(crc, 1)
        if low == 1 then
            crc = bit.bxor(crc, 0x82F63B78)
        end
    end
    crc_table[value] = crc
end

local function crc32c(octets)
    local band, bxor, rshift, byte = bit.band, bit.bxor, bit.rshift, string.byte
    local crc = bit.bnot(0)
    for i = 1, #octets do
        crc = bxor(crc_table[band(bxor(crc, byte(octets, i)), 0xFF)], rshift(crc, 8))
    end
    return bit.bnot(crc) % 0x100000000
end

-- ---- connections ----

-- By number of the TCP stream: `request` and `reply`, the startup frames, each
-- with the number of the frame (of the capture) that completed it, its sender
-- and its flags; and `first`, the frame with the initiator's first FPDU.
-- Frames are seen in order once, and then in any order.
local connections = {}
local stream_field = Field.new("tcp.stream")


local function connection_of()
    local all = { stream_field() }
    if #all == 0 then
        return {}
    end
    local number = all[#all].value
    connections[number] = connections[number] or {}
    return connections[number]
end

local function sender_of(pinfo)
    return tostring(pinfo.src) .. " " .. pinfo.src_port
end

-- What of the connection had been seen when this frame came.
local function known(connection, pinfo)
    local function seen(startup)
        return startup and startup.number <= pinfo.number and startup or nil
    end
    return seen(connection.request), seen(connection.reply)
end

-- What the octets after startup are, "fpdu" or a key of WHY_OTHER, or nil when
-- nothing is known of this connection; and whether the initiator sent them.
local function phase_of(connection, pinfo)
    local request, reply = known(connection, pinfo)
    if not request and not reply then
        return nil
    end
    local from_initiator
    if request then
        from_initiator = request.sender == sender_of(pinfo)
    else
        from_initiator = reply.sender ~= sender_of(pinfo)
    end
    local own, peers = reply, request
    if from_initiator then
        own, peers = request, reply
    end
    local phase = "fpdu"
    if not from_initiator and not reply then
        phase = "early"
    elseif own and own.broken then
        phase = "broken"
    elseif reply and reply.rejects then
        phase = "rejected"
    elseif peers and peers.markers then
        phase = "markers"
    end
    return phase, from_initiator
end

local function crc_state(connection, pinfo)
    local request, reply = known(connection, pinfo)
    if (request and request.crc) or (reply and reply.crc) then
        return nil
    end
    return request and reply and CRC_OFF or CRC_UNKNOWN
end

-- ---- what the columns say ----

local function show(pinfo, text)
    pinfo.cols.protocol = "MPA"
    if pinfo.private["mpa2.info"] then
        pinfo.cols.info:append("; " .. text)
    else
        pinfo.cols.info:set(text)
        pinfo.private["mpa2.info"] = "1"
    end
    -- What TCP or the next call puts there comes after this.
    pinfo.cols.info:fence()
end

-- ---- startup frames ----

local KEYS = { ["MPA ID Req Frame"] = "request", ["MPA ID Rep Frame"] = "reply" }

-- "request" or "reply" when a whole key is there, "prefix" for a part of one.
local function key_at(tvb, at)
    local size = math.min(tvb:len() - at, KEY_LEN)
    if size <= 0 then
        return nil
    end
    local octets = tvb:raw(at, size)
    if size == KEY_LEN then
        return KEYS[octets]
    end
    for key in pairs(KEYS) do
        if key:sub(1, size) == octets then
            return "prefix"
        end
    end
    return nil
end

local function depth(range)
    local value = bit.band(range:uint(), 0x3FFF)
    return value == NOT_NEGOTIATED and "not negotiated" or tostring(value)
end

-- Adds one half of the enhanced data; returns the names of its flags and the depth.
local function add_half(r, tree, flags, depth_key)
    local range = r:peek(2)
    if not range then
        return {}, "?"
    end
    local set = {}
    for _, one in ipairs(flags) do
        tree:add(F[one.key], range)
        if bit.band(range:uint(), one.mask) ~= 0 then
            set[#set + 1] = one.name
        end
    end
    local _, item = r:take(tree, depth_key, 2)
    if depth(range) == "not negotiated" then
        item:append_text(" (not negotiated)")
    end
    return set, depth(range)
end

local FIRST_HALF = {
    { key = "a", name = "A", mask = 0x8000 }, { key = "b", name = "B", mask = 0x4000 },
}
local SECOND_HALF = {
    { key = "cw", name = "C", mask = 0x8000 }, { key = "d", name = "D", mask = 0x4000 },
}

-- Returns the text for the Info column and whether A is set.
local function add_enhanced(r, tree)
    local range = r.tvb(r.at, math.min(ENHANCED_LEN, r.stop - r.at))
    local sub = tree:add(F.enhanced, range)
    local first, ird = add_half(r, sub, FIRST_HALF, "ird")
    local second, ord = add_half(r, sub, SECOND_HALF, "ord")
    local a = first[1] == "A"
    for _, name in ipairs(second) do
        first[#first + 1] = name
    end
    local kinds = #first > 0 and table.concat(first, " ") or "client-server"
    return string.format("%s, IRD %s, ORD %s", kinds, ird, ord), a
end

-- A frame at `at`, of which `size` octets are its own and may be missing.
local function dissect_startup(tvb, at, size, kind, pinfo, tree, connection)
    local flags, rev = tvb(at + 16, 1):uint(), tvb(at + 17, 1):uint()
    local pd_length = tvb(at + 18, 2):uint()
    local rejects = kind == "reply" and bit.band(flags, 0x20) ~= 0
    local is_enhanced = rev >= 2 and bit.band(flags, 0x10) ~= 0
    local r = reader(tvb, at, at + size)

    local item = tree:add(F[kind], tvb(at, r.stop - at))
    r:take(item, "key", KEY_LEN)
    local range, flags_item = r:take(item, "flags", 1)
    for _, one in ipairs({ "m", "c", "r" }) do
        flags_item:add(F[one], range)
    end
    if rev >= 2 then
        flags_item:add(F.s, range)
        flags_item:add(F.res, range)
    else
        flags_item:add(F.res1, range)
    end
    local _, rev_item = r:take(item, "rev", 1)
    if rev ~= 1 and rev ~= 2 then
        rev_item:add_proto_expert_info(E.rev)
    end
    local _, length_item = r:take(item, "pd_length", 2)

    local words = { string.format("Rev %d", rev) }
    local names = ""
    for _, one in ipairs({ { "M", 0x80 }, { "C", 0x40 }, { "R", 0x20 }, { "S", 0x10 } }) do
        if bit.band(flags, one[2]) ~= 0 and (one[1] ~= "S" or rev >= 2) then
            names = names .. " " .. one[1]
        end
    end
    words[#words + 1] = names ~= "" and "flags" .. names or nil

    local a = false
    if pd_length > MAX_PD_LENGTH then
        length_item:add_proto_expert_info(E.pd_length)
        words[#words + 1] = string.format("PD_Length %d is too large", pd_length)
    else
        if is_enhanced and pd_length < ENHANCED_LEN then
            length_item:add_proto_expert_info(E.no_enhanced)
            words[#words + 1] = "no enhanced data"
        elseif is_enhanced and r.at < r.stop then
            words[#words + 1], a = add_enhanced(r, item)
        end
        local got = r:rest(item, "private_data")
        if got > 0 then
            words[#words + 1] = string.format("%d octets of private data", got)
        end
        if r.stop < at + size then
            item:add_proto_expert_info(E.cut)
        end
    end

    local name = kind == "request" and "MPA Request" or
        rejects and "MPA Reply, reject" or "MPA Reply, accept"
    if rejects then
        item:add_proto_expert_info(E.reject)
    end
    local text = name .. ", " .. table.concat(words, ", ")
    item:set_text(text)
    show(pinfo, text)

    if not pinfo.visited and not connection[kind] then
        connection[kind] = {
            number = pinfo.number, sender = sender_of(pinfo),
            rejects = rejects, peer_to_peer = a, broken = pd_length > MAX_PD_LENGTH,
            markers = bit.band(flags, 0x80) ~= 0, crc = bit.band(flags, 0x40) ~= 0,
        }
    end
    pinfo.conversation = mpa2
end

-- ---- FPDUs ----

local function add_read_request(r, tree)
    r:take(tree, "sink_stag", 4)
    r:take(tree, "sink_to", 8)
    local size = r:take(tree, "read_size", 4)
    r:take(tree, "source_stag", 4)
    r:take(tree, "source_to", 8)
    return size and size:uint()
end

-- Returns the text for the Info column.
local function add_terminate(r, tree)
    local range = r:take(tree, "layer", 1)
    if not range then
        return "Terminate"
    end
    tree:add(F.etype, range)
    local both = range:uint()
    local layer, etype = bit.rshift(both, 4), bit.band(both, 0x0F)
    local code_range, code_item = r:take(tree, "code", 1)
    if not code_range then
        return "Terminate"
    end
    local code = code_range:uint()
    local text = (ERROR_CODES[both] or {})[code] or ERROR_TYPES[both] or "unknown error"
    code_item:append_text(" (" .. text .. ")")
    tree:add(F.error, code_range, text):set_generated()

    local control = r:peek(2)
    if control then
        for _, one in ipairs({ "term_m", "term_d", "term_r" }) do
            tree:add(F[one], control(0, 1))
        end
        r.at = r.at + 2
        local flags = control(0, 1):uint()
        if bit.band(flags, 0x40) ~= 0 then
            r:take(tree, "term_length", 2)
            local first = r:peek(1)
            if first then
                r:take(tree, "term_ddp", bit.band(first:uint(), 0x80) ~= 0 and 14 or 18)
            end
        end
        if bit.band(flags, 0x20) ~= 0 then
            r:take(tree, "term_rdmap", READ_REQUEST_LEN)
        end
    end
    return string.format("Terminate %d/%d/%02x, %s: %s", layer, etype, code,
        LAYERS[layer] or "unknown layer", text)
end

-- Adds DDP and RDMAP headers and the payload. Returns the text for the Info
-- column, the opcode, and whether this is a whole message of length zero.
local function add_ulpdu(r, tree)
    local ddp, ddp_item = r:take(tree, "ddp", 1)
    local rdmap, rdmap_item = r:take(tree, "rdmap", 1)
    if not rdmap then
        return "No headers"
    end
    for _, one in ipairs({ "tagged", "last", "ddp_rsvd", "dv" }) do
        ddp_item:add(F[one], ddp)
    end
    for _, one in ipairs({ "rv", "rdmap_rsvd", "opcode" }) do
        rdmap_item:add(F[one], rdmap)
    end
    local tagged = bit.band(ddp:uint(), 0x80) ~= 0
    local last = bit.band(ddp:uint(), 0x40) ~= 0
    local opcode = bit.band(rdmap:uint(), 0x0F)
    local text = OPCODES[opcode] or string.format("opcode %d", opcode)

    if tagged then
        r:take(tree, "stag", 4)
        r:take(tree, "to", 8)
    else
        r:take(tree, "inv_stag", 4)
        r:take(tree, "qn", 4)
        local msn = r:take(tree, "msn", 4)
        r:take(tree, "mo", 4)
        if msn and opcode ~= OP_TERMINATE then
            text = string.format("%s, MSN %d", text, msn:uint())
        end
    end
    local size
    if not tagged and opcode == OP_READ_REQUEST then
        size = add_read_request(r, tree)
        r:rest(tree, "payload")
    elseif not tagged and opcode == OP_TERMINATE then
        text = add_terminate(r, tree)
        r:rest(tree, "payload")
    else
        size = r:rest(tree, "payload")
    end
    if size and not r.short then
        text = string.format("%s, %d octets", text, size)
    end
    local empty = size == 0 and last and not r.short and tagged == (opcode == OP_WRITE)
    return text, opcode, empty
end

local function add_crc(tvb, at, total, tree, state)
    local range = tvb(at + total - CRC_LEN, CRC_LEN)
    local item = tree:add_le(F.crc, range)
    if not state then
        local calculated = crc32c(tvb:raw(at, total - CRC_LEN))
        state = calculated == range:le_uint() and CRC_GOOD or CRC_BAD
        tree:add(F.crc_calculated, range, calculated):set_generated()
    end
    item:append_text(" (" .. CRC_STATES[state] .. ")")
    tree:add(F.crc_status, range, state):set_generated()
    if state == CRC_BAD then
        item:add_proto_expert_info(E.crc)
    end
    return state
end

-- The first message of an initiator that announced an RTR: `kind`, when it is one.
-- Returns the text for the Info column.
local function judge_first(item, range, text, opcode, kind)
    if kind then
        item:add(F.rtr, range, kind):set_generated()
        return "RTR (" .. kind .. ")"
    elseif opcode ~= OP_TERMINATE then
        item:add_proto_expert_info(E.no_rtr)
    end
    return text
end

-- Whether this is the first FPDU of an initiator that announced an RTR.
local function rtr_is_due(connection, pinfo, from_initiator)
    local request = known(connection, pinfo)
    if not from_initiator or not request or not request.peer_to_peer then
        return false
    end
    connection.first = connection.first or pinfo.number
    -- There may be more FPDUs in the frame with the first one.
    local mark = "mpa2.first"
    if connection.first ~= pinfo.number or pinfo.private[mark] then
        return false
    end
    pinfo.private[mark] = "1"
    return true
end

local function fpdu_size(ulpdu_length)
    return LENGTH_LEN + ulpdu_length + -(LENGTH_LEN + ulpdu_length) % 4 + CRC_LEN
end

-- Of the headers at `at`.
local function has_versions_and_opcode(tvb, at)
    return bit.band(tvb(at, 1):uint(), 0x03) == 1 and
        bit.band(tvb(at + 1, 1):uint(), 0xC0) == 0x40 and
        OPCODES[bit.band(tvb(at + 1, 1):uint(), 0x0F)] ~= nil
end

local function looks_right(tvb, at, ulpdu_length)
    return ulpdu_length == 0 or
        ulpdu_length <= MAX_ULPDU_LENGTH and has_versions_and_opcode(tvb, at + LENGTH_LEN)
end

local function dissect_fpdu(tvb, at, total, pinfo, tree, connection, from_initiator)
    local ulpdu_length = tvb(at, LENGTH_LEN):uint()
    local stop = math.min(at + total, tvb:len())
    local item = tree:add(F.fpdu, tvb(at, stop - at))
    local _, length_item = reader(tvb, at, stop):take(item, "ulpdu_length", LENGTH_LEN)
    local r = reader(tvb, at + LENGTH_LEN, at + LENGTH_LEN + ulpdu_length)

    local text, opcode, empty = NO_ULPDU, nil, false
    if ulpdu_length == 0 then
        length_item:add_proto_expert_info(E.ulpdu_length)
    else
        text, opcode, empty = add_ulpdu(r, item)
        if not r.short and not has_versions_and_opcode(tvb, at + LENGTH_LEN) then
            item:add_proto_expert_info(E.header)
        end
    end
    if at + total > tvb:len() then
        item:add_proto_expert_info(E.cut)
        text = text .. ", cut"
    elseif r.short then
        item:add_proto_expert_info(E.short)
        text = text .. ", too short"
    end

    if rtr_is_due(connection, pinfo, from_initiator) then
        local kind = empty and RTR_KINDS[opcode] or ulpdu_length == 0 and NO_ULPDU
        text = judge_first(item, tvb(at, stop - at), text, opcode, kind)
    end
    if opcode == OP_TERMINATE then
        item:add_proto_expert_info(E.terminate, text)
    end

    if at + total <= tvb:len() then
        local pad = reader(tvb, at + LENGTH_LEN + ulpdu_length, at + total - CRC_LEN)
        pad:rest(item, "pad")
        if add_crc(tvb, at, total, item, crc_state(connection, pinfo)) == CRC_BAD then
            text = text .. ", bad CRC"
        end
    end
    item:set_text(text)
    show(pinfo, text)
end

-- ---- chunks of SCTP ----

-- By stream and the ends of the association, the sender first: whether A is set in
-- the Initiates that have been seen, by the number of their frame. Where nothing wants
-- a tree there are no fields to tell a stream by, so that a first pass may see none.
local initiates = {}
local ppid_field = Field.new("sctp.data_payload_proto_id")
local sid_field = Field.new("sctp.data_sid")
local unordered_field = Field.new("sctp.data_u_bit")

-- Of the chunk that is being dissected: the last one in the tree so far.
local function last_value(of)
    local all = { of() }
    return all[#all] and all[#all].value
end

local function initiates_of(pinfo)
    local key = string.format("%s %s %s %d", tostring(last_value(sid_field)),
        sender_of(pinfo), tostring(pinfo.dst), pinfo.dst_port)
    initiates[key] = initiates[key] or {}
    return initiates[key]
end

-- Whether the first segment behind the last Initiate of this sender has to be an RTR.
local function announced_rtr(pinfo)
    local last, peer_to_peer = 0, false
    for number, a in pairs(initiates_of(pinfo)) do
        if number <= pinfo.number and number > last then
            last, peer_to_peer = number, a
        end
    end
    return peer_to_peer
end

-- Adds what follows the function code; returns words for the Info column and A.
local function add_session_data(r, item, code)
    local words, a = {}, false
    local size = r.stop - r.at
    if code == FN_TERMINATE then
        if size > 0 then
            item:add_proto_expert_info(E.terminate_pd)
        end
    elseif size > MAX_PD_LENGTH then
        item:add_proto_expert_info(E.pd_long)
    end
    if code >= FN_ENHANCED_INITIATE and code <= FN_ENHANCED_REJECT then
        if size >= ENHANCED_LEN then
            words[1], a = add_enhanced(r, item)
        elseif code ~= FN_ENHANCED_REJECT then
            item:add_proto_expert_info(E.pd_short)
            words[1] = "no enhanced data"
        end
    end
    local got = r:rest(item, "private_data")
    if got > 0 then
        words[#words + 1] = string.format("%d octets of private data", got)
    end
    return words, a
end

-- Returns the text for the Info column.
local function dissect_control(r, pinfo, item)
    local ssn = r:take(item, "ssn", SSN_LEN)
    local fn, fn_item = r:take(item, "fn", FUNCTION_LEN)
    if not fn then
        return "DDP Stream Session Control"
    end
    local code = fn:uint()
    if not FUNCTIONS[code] then
        fn_item:add_proto_expert_info(E.fn)
    elseif code == FN_REJECT or code == FN_ENHANCED_REJECT then
        item:add_proto_expert_info(E.reject)
    end
    local words, a = add_session_data(r, item, code)
    if code == FN_INITIATE or code == FN_ENHANCED_INITIATE then
        initiates_of(pinfo)[pinfo.number] = a
    end
    table.insert(words, 1, string.format("DDP-SSN %d", ssn:uint()))
    return string.format("%s, %s", FUNCTIONS[code] or
        string.format("Function code 0x%04x", code), table.concat(words, ", "))
end

local function dissect_segment(r, pinfo, item)
    local ssn = r:take(item, "ssn", SSN_LEN)
    if not ssn then
        return "DDP segment"
    end
    local at = r.at
    local text, opcode, empty = add_ulpdu(r, item)
    if not r.short and not has_versions_and_opcode(r.tvb, at) then
        item:add_proto_expert_info(E.header)
    end
    if ssn:uint() == 1 and announced_rtr(pinfo) then
        text = judge_first(item, r.tvb(at, r.stop - at), text, opcode,
            empty and RTR_KINDS[opcode])
    end
    if opcode == OP_TERMINATE then
        item:add_proto_expert_info(E.terminate, text)
    end
    return string.format("%s, DDP-SSN %d", text, ssn:uint())
end

local CHUNKS = {
    [PPID_CONTROL] = { key = "control", dissect = dissect_control },
    [PPID_SEGMENT] = { key = "segment", dissect = dissect_segment },
}

-- Of chunks that the capture has cut SCTP makes nothing, and does not come here.
local function dissect_chunk(tvb, pinfo, tree)
    local kind = CHUNKS[last_value(ppid_field)]
    if not kind then
        return 0
    end
    local item = tree:add(mpa2, tvb()):add(F[kind.key], tvb())
    local r = reader(tvb, 0, tvb:len())
    local text = kind.dissect(r, pinfo, item)
    if r.short then
        item:add_proto_expert_info(E.short)
        text = text .. ", too short"
    end
    if last_value(unordered_field) == false then
        item:add_proto_expert_info(E.ordered)
        text = text .. ", ordered"
    end
    item:set_text(text)
    -- SCTP has put the TSN there, and goes on with the next chunk's.
    pinfo.cols.protocol = "MPA"
    pinfo.cols.info:append(text .. " ")
    return tvb:len()
end

-- ---- the stream ----

-- Whether `size` octets from `at` are there; if not, TCP is asked for the rest
-- if it can give it. Returns "there", "asked" or "cut".
local function have(tvb, at, size, pinfo)
    local missing = at + size - tvb:len()
    if missing <= 0 then
        return "there"
    end
    if pinfo.can_desegment == 0 or tvb:reported_len() > tvb:len() then
        return "cut"
    end
    pinfo.desegment_offset = at
    pinfo.desegment_len = missing
    return "asked"
end

-- All octets from `at` on that nothing is known about.
local function dissect_other(tvb, at, pinfo, tree, text)
    local item = tree:add(F.other, tvb(at, tvb:len() - at))
    item:prepend_text(text .. ": ")
    item:add_proto_expert_info(E.other, text)
    show(pinfo, text)
    return tvb:len()
end

-- Each returns where the next one begins, or nil when TCP was asked for more.
local function next_startup(tvb, at, pinfo, tree, connection)
    local got = have(tvb, at, HEADER_LEN, pinfo)
    if got == "asked" then
        return nil
    elseif got == "cut" then
        return dissect_other(tvb, at, pinfo, tree, "Startup frame, cut")
    end
    local pd_length = tvb(at + 18, 2):uint()
    local size = HEADER_LEN + (pd_length <= MAX_PD_LENGTH and pd_length or 0)
    if have(tvb, at, size, pinfo) == "asked" then
        return nil
    end
    dissect_startup(tvb, at, size, key_at(tvb, at), pinfo, tree, connection)
    return at + size
end

local function next_fpdu(tvb, at, pinfo, tree, connection, from_initiator)
    local got = have(tvb, at, FPDU_HEAD_LEN, pinfo)
    if got == "asked" then
        return nil
    elseif got == "cut" then
        return dissect_other(tvb, at, pinfo, tree, "FPDU, cut")
    end
    local ulpdu_length = tvb(at, LENGTH_LEN):uint()
    local total = fpdu_size(ulpdu_length)
    local missing = at + total - tvb:len()
    -- After a gap anything may be here, zeros above all: do not wait for what
    -- looks wrong, and an FPDU without ULPDU is the last thing in its segment.
    if ulpdu_length == 0 and missing < 0 or missing > 0 and
        not looks_right(tvb, at, ulpdu_length) then
        return dissect_other(tvb, at, pinfo, tree, "Not an FPDU")
    end
    if have(tvb, at, total, pinfo) == "asked" then
        return nil
    end
    dissect_fpdu(tvb, at, total, pinfo, tree, connection, from_initiator)
    return at + total
end

local WHY_OTHER = {
    broken = "Data after a wrong PD_Length",
    markers = "Markers: not dissected",
    rejected = "Data after a reject",
    early = "Data before the Reply",
}

-- What stands at `at`: the startup frame of a direction, or what follows it.
local function next_of(tvb, at, pinfo, tree, connection)
    local phase, from_initiator = phase_of(connection, pinfo)
    local kind = key_at(tvb, at)
    -- Four octets of a key cannot begin an FPDU: their RDMAP version is wrong.
    if kind and (not phase or kind ~= "prefix" or phase == "early") then
        return next_startup(tvb, at, pinfo, tree, connection)
    end
    if phase == "fpdu" then
        return next_fpdu(tvb, at, pinfo, tree, connection, from_initiator)
    end
    return dissect_other(tvb, at, pinfo, tree, WHY_OTHER[phase] or "Not MPA")
end

-- The protocol's item, made when the first thing is added to it: a segment that
-- only begins something is none of MPA's in a display filter.
local function protocol_item(tvb, tree)
    local item
    return {
        add = function(_, ...)
            item = item or tree:add(mpa2, tvb())
            return item:add(...)
        end,
    }
end

-- Returns how many octets are ours: 0 when this connection is none.
local function dissect(tvb, pinfo, tree)
    local connection = connection_of()
    if tvb:len() == 0 or not (key_at(tvb, 0) or phase_of(connection, pinfo)) then
        return 0
    end
    local top = protocol_item(tvb, tree)
    local at = 0
    while at and at < tvb:len() do
        at = next_of(tvb, at, pinfo, top, connection)
    end
    return tvb:len()
end

function mpa2.init()
    connections = {}
    initiates = {}
end

-- SCTP and TCP, which the same name is registered with.
local PORT_TYPE_SCTP = 1

function mpa2.dissector(tvb, pinfo, tree)
    if pinfo.port_type == PORT_TYPE_SCTP then
        return dissect_chunk(tvb, pinfo, tree)
    end
    return dissect(tvb, pinfo, tree)
end

local payloads = DissectorTable.get("sctp.ppi")
payloads:add(PPID_SEGMENT, mpa2)
payloads:add(PPID_CONTROL, mpa2)

-- Until the first startup frame. A part of a key is taken on trial: TCP asks
-- again when it has more, and others may have it then.
local function first_of_connection(tvb, pinfo, tree)
    local kind = key_at(tvb, 0)
    if not kind or (kind == "prefix" and pinfo.can_desegment == 0) then
        return false
    end
    return dissect(tvb, pinfo, tree) > 0
end

mpa2:register_heuristic("tcp", first_of_connection)

-- ---- ports ----

-- Only for ports that another dissector owns: there it would be asked first.
mpa2.prefs.ports = Pref.range("TCP ports", "",
    "Ports that are dissected as MPA although another protocol has them", 65535)

local tcp_ports = DissectorTable.get("tcp.port")
local ports = ""

function mpa2.prefs_changed()
    if ports ~= "" then
        tcp_ports:remove(ports, mpa2)
    end
    ports = tostring(mpa2.prefs.ports)
    if ports ~= "" then
        tcp_ports:add(ports, mpa2)
    end
end

tcp_ports:add_for_decode_as(mpa2)
