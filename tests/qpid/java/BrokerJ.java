import java.util.HashMap;
import java.util.Map;
import org.apache.qpid.server.SystemLauncher;

/** Qpid Broker-J, from a configuration file, until standard input ends. */
public class BrokerJ {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> attributes = new HashMap<>();
        attributes.put("type", "Memory");
        attributes.put("initialConfigurationLocation", arguments[0]);
        SystemLauncher launcher = new SystemLauncher();
        launcher.startup(attributes);
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // the test that started it is still there
        }
        launcher.shutdown();
        System.exit(0);
    }
}
