import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQAnyDestination;
import org.apache.qpid.client.AMQConnectionFactory;

/**
 * A JMS client that exchanges messages with one of another protocol: `Exchange COUNT URL URL...`.
 *
 * At each broker it receives so many messages from "to-jms", prints what JMS has of each, and sends it on to "back" as
 * it is; then it sends one message of each kind to "from-jms", with every type of property. The queues are there.
 */
public class Exchange {
    private static final long PATIENCE = 30_000;
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) {
        try {
            for (int i = 1; i < arguments.length; i++) {
                run(arguments[i], Integer.parseInt(arguments[0]));
                OUT.println("done");
            }
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String url, int count) throws Exception {
        Connection connection = new AMQConnectionFactory(url).createConnection();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        connection.start();
        MessageConsumer consumer = session.createConsumer(queue("to-jms"));
        MessageProducer back = session.createProducer(queue("back"));
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) {
                throw new AssertionError("no message " + i);
            }
            OUT.println(described(message));
            back.send(message, message.getJMSDeliveryMode(), message.getJMSPriority(), 0);
        }
        MessageProducer producer = session.createProducer(queue("from-jms"));
        for (Message each : messages(session)) {
            producer.send(each, DeliveryMode.PERSISTENT, 7, 600_000);
        }
        connection.close();
    }

    private static Destination queue(String name) throws Exception {
        return new AMQAnyDestination("ADDR:" + name + "; {create: never, node: {type: queue}}");
    }

    private static List<Message> messages(Session session) throws Exception {
        TextMessage text = session.createTextMessage("grüß € \uD83D\uDE00");
        text.setBooleanProperty("boolean", true);
        text.setByteProperty("byte", (byte) -8);
        text.setShortProperty("short", (short) -1600);
        text.setIntProperty("int", Integer.MIN_VALUE);
        text.setLongProperty("long", Long.MIN_VALUE);
        text.setFloatProperty("float", 3.5f);
        text.setDoubleProperty("double", -1e300);
        text.setStringProperty("string", "größe");
        text.setJMSCorrelationID("correlation");
        text.setJMSType("a type");
        text.setJMSReplyTo(queue("back"));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, (byte) 255});
        MapMessage map = session.createMapMessage();
        map.setInt("int", -3);
        map.setString("string", "text");
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(7);
        ObjectMessage object = session.createObjectMessage("an object");
        return List.of(text, bytes, map, stream, object);
    }

    /** Its headers, its properties with their types, and its body, by their names. */
    private static String described(Message message) throws Exception {
        Map<String, String> found = new TreeMap<>();
        found.put("JMSCorrelationID", message.getJMSCorrelationID());
        found.put("JMSType", message.getJMSType());
        found.put("JMSPriority", Integer.toString(message.getJMSPriority()));
        found.put("JMSDeliveryMode", Integer.toString(message.getJMSDeliveryMode()));
        found.put("JMSMessageID", message.getJMSMessageID());
        found.put("JMSTimestamp", Long.toString(message.getJMSTimestamp()));
        found.put("JMSReplyTo", String.valueOf(message.getJMSReplyTo() != null));
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
            String name = (String) names.nextElement();
            if (!name.startsWith("JMS")) {
                found.put(name, value(message.getObjectProperty(name)));
            }
        }
        if (message instanceof TextMessage) {
            found.put("body", value(((TextMessage) message).getText()));
        } else {
            BytesMessage bytes = (BytesMessage) message;
            byte[] body = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(body);
            bytes.reset();
            found.put("body", value(body));
        }
        return found.entrySet().stream().map(each -> each.getKey() + "=" + each.getValue()).collect(Collectors.joining("\t"));
    }

    private static String value(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof byte[]) {
            StringBuilder digits = new StringBuilder();
            for (byte each : (byte[]) value) {
                digits.append(String.format("%02x", each));
            }
            return "bytes " + digits;
        }
        if (value instanceof List) {
            return "[" + ((List<?>) value).stream().map(Exchange::value).collect(Collectors.joining(", ")) + "]";
        }
        if (value instanceof Map) {
            Map<String, String> sorted = new TreeMap<>();
            ((Map<?, ?>) value).forEach((key, each) -> sorted.put((String) key, value(each)));
            return sorted.toString();
        }
        return value.getClass().getSimpleName() + " " + value;
    }
}
