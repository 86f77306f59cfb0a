// A TLS client in Go: see __init__.py.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

func main() {
	authority, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for place := 3; place < len(os.Args); place += 2 {
		fmt.Println(attempt(os.Args[1], roots, os.Args[place], os.Args[place+1]))
	}
}

func attempt(port string, roots *x509.CertPool, version string, file string) string {
	number := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[version]
	certificate, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return err.Error()
	}
	config := &tls.Config{
		RootCAs: roots, ServerName: "localhost", MinVersion: number, MaxVersion: number,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	client, err := tls.Dial("tcp", "127.0.0.1:"+port, config)
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err = client.Read(make([]byte, 1)); err != nil {
		return err.Error()
	}
	return "ok"
}
