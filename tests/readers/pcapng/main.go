// SPDX-License-Identifier: Apache-2.0 OR MIT
// Prints the packets of a pcapng file as gopacket's reader finds them, a line of JSON for each, and a last one with what the
// interfaces' statistics count: usage: pcapng FILE
package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

type packet struct {
	TimeNs      int64  `json:"time_ns"`
	Length      int    `json:"length"`
	Captured    int    `json:"captured"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Payload     string `json:"payload"`
	Problem     string `json:"problem,omitempty"`
}

type statistics struct {
	Received uint64 `json:"received"`
	Sections int    `json:"sections"`
}

// decoder names the layer that packets begin with. The link types of plain IPv4 and IPv6 have a name in gopacket, and no decoder.
func decoder(of layers.LinkType) gopacket.Decoder {
	switch of {
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6
	}
	return of
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var counted statistics
	options := pcapgo.NgReaderOptions{StatisticsCallback: func(_ int, of pcapgo.NgInterfaceStatistics) {
		// Each section has its own.
		if of.PacketsReceived != pcapgo.NgNoValue64 {
			counted.Received += of.PacketsReceived
		}
		counted.Sections++
	}}
	reader, err := pcapgo.NewNgReader(file, options)
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	for {
		data, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		decoded := gopacket.NewPacket(data, decoder(reader.LinkType()), gopacket.Default)
		one := packet{TimeNs: info.Timestamp.UnixNano(), Length: info.Length, Captured: info.CaptureLength}
		if network := decoded.NetworkLayer(); network != nil {
			from, to := network.NetworkFlow().Endpoints()
			one.Source, one.Destination = from.String(), to.String()
		}
		if udp, ok := decoded.Layer(layers.LayerTypeUDP).(*layers.UDP); ok {
			one.Source += ":" + udp.SrcPort.String()
			one.Payload = hex.EncodeToString(udp.Payload)
		}
		if failure := decoded.ErrorLayer(); failure != nil {
			one.Problem = failure.Error().Error()
		}
		if err := out.Encode(one); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Encode(counted); err != nil {
		log.Fatal(err)
	}
}
