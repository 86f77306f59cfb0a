import java.io.ByteArrayInputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;

class Client {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        trusted.setCertificateEntry("authority", chain(Files.readString(Path.of(arguments[1])))[0]);
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);
        for (int place = 2; place < arguments.length; place += 2) {
            System.out.println(attempt(port, trust, "TLSv" + arguments[place], arguments[place + 1]));
        }
    }

    static String attempt(int port, TrustManagerFactory trust, String version, String file) throws Exception {
        String pem = Files.readString(Path.of(file));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(new KeyManager[] {new Certificate(chain(pem), key(pem))}, trust.getTrustManagers(), null);
        try (Socket plain = new Socket("127.0.0.1", port);
                SSLSocket secured = (SSLSocket) context.getSocketFactory().createSocket(plain, "localhost", port, true)) {
            SSLParameters parameters = secured.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            parameters.setProtocols(new String[] {version});
            secured.setSSLParameters(parameters);
            secured.setSoTimeout(30_000);
            return secured.getInputStream().read() < 0 ? "closed" : "ok";
        } catch (java.io.IOException error) {
            return String.valueOf(error.getMessage()).replace('\n', ' ');
        }
    }

    static X509Certificate[] chain(String pem) throws Exception {
        String certificates = pem.split("-----BEGIN (EC |RSA )?PRIVATE KEY", 2)[0];
        byte[] bytes = certificates.getBytes(StandardCharsets.US_ASCII);
        return CertificateFactory.getInstance("X.509")
                .generateCertificates(new ByteArrayInputStream(bytes))
                .toArray(new X509Certificate[0]);
    }

    static PrivateKey key(String pem) throws Exception {
        String encoded = pem.replaceAll("(?s).*-----BEGIN PRIVATE KEY-----|-----END PRIVATE KEY-----.*|\\s", "");
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(encoded));
        try {
            return KeyFactory.getInstance("EC").generatePrivate(spec);
        } catch (java.security.spec.InvalidKeySpecException error) {
            return KeyFactory.getInstance("RSA").generatePrivate(spec);
        }
    }

    /** The only one, whoever has signed it; Java's own sends none that the listener would not accept. */
    static class Certificate extends X509ExtendedKeyManager {
        private final X509Certificate[] chain;
        private final PrivateKey key;

        Certificate(X509Certificate[] chain, PrivateKey key) {
            this.chain = chain;
            this.key = key;
        }

        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            for (String type : types) {
                if (type.startsWith(key.getAlgorithm())) {
                    return "own";
                }
            }
            return null;
        }

        public X509Certificate[] getCertificateChain(String alias) {
            return chain;
        }

        public PrivateKey getPrivateKey(String alias) {
            return key;
        }

        public String[] getClientAliases(String type, Principal[] issuers) {
            return new String[] {"own"};
        }

        public String[] getServerAliases(String type, Principal[] issuers) {
            return null;
        }

        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return null;
        }
    }
}
