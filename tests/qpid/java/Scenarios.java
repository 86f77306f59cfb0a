import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.qpid.client.AMQAnyDestination;
import org.apache.qpid.client.AMQConnectionFactory;

/**
 * What the Qpid JMS client does over AMQP 0-10, as named scenarios: `Scenarios URL NAME…`.
 *
 * Prints `NAME ok`, or `NAME failed` and why; ends with 1 if any failed. Each makes its own queues.
 */
public class Scenarios {
    private static final long PATIENCE = 20_000;
    private static final long WHILE = 300;

    interface Scenario {
        void run(Scenarios world) throws Exception;
    }

    private static final Map<String, Scenario> ALL = new LinkedHashMap<>();

    static {
        ALL.put("text", Scenarios::text);
        ALL.put("bytes", Scenarios::bytes);
        ALL.put("large", Scenarios::large);
        ALL.put("map", Scenarios::map);
        ALL.put("stream", Scenarios::stream);
        ALL.put("object", Scenarios::object);
        ALL.put("properties", Scenarios::properties);
        ALL.put("headers", Scenarios::headers);
        ALL.put("empty", Scenarios::empty);
        ALL.put("order", Scenarios::order);
        ALL.put("time-to-live", Scenarios::timeToLive);
        ALL.put("request-reply", Scenarios::requestReply);
        ALL.put("topic", Scenarios::topic);
        ALL.put("durable-subscription", Scenarios::durableSubscription);
        ALL.put("exclusive-subscription", Scenarios::exclusiveSubscription);
        ALL.put("no-local", Scenarios::noLocal);
        ALL.put("temporary-queue", Scenarios::temporaryQueue);
        ALL.put("browser", Scenarios::browser);
        ALL.put("selector", Scenarios::selector);
        ALL.put("selecting-browser", Scenarios::selectingBrowser);
        ALL.put("tx-commit", Scenarios::txCommit);
        ALL.put("tx-rollback", Scenarios::txRollback);
        ALL.put("recover", Scenarios::recover);
        ALL.put("two-consumers", Scenarios::twoConsumers);
        ALL.put("exclusive", Scenarios::exclusive);
        ALL.put("no-queue", Scenarios::noQueue);
        ALL.put("dtx-commit", Scenarios::dtxCommit);
        ALL.put("dtx-one-phase", Scenarios::dtxOnePhase);
        ALL.put("dtx-rollback", Scenarios::dtxRollback);
        ALL.put("dtx-join-suspend", Scenarios::dtxJoinSuspend);
        ALL.put("dtx-recover", Scenarios::dtxRecover);
        ALL.put("dtx-errors", Scenarios::dtxErrors);
    }

    private final String url;
    private final String suffix = UUID.randomUUID().toString();
    private Connection connection;
    private Session session;

    private Scenarios(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        String[] names = Arrays.copyOfRange(arguments, 1, arguments.length);
        if (names.length == 0) {
            names = ALL.keySet().toArray(new String[0]);
        }
        boolean haveAllPassed = true;
        for (String name : names) {
            Scenarios world = new Scenarios(arguments[0]);
            try {
                world.open();
                ALL.get(name).run(world);
                System.out.println(name + " ok");
            } catch (Throwable failure) {
                haveAllPassed = false;
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                System.out.println(name + " failed " + trace.toString().replace("\n", "\n    "));
            } finally {
                world.close();
            }
        }
        System.exit(haveAllPassed ? 0 : 1);
    }

    private void open() throws Exception {
        connection = new AMQConnectionFactory(url).createConnection();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        connection.start();
    }

    private void close() {
        try {
            connection.close();
        } catch (Exception failure) {
            // a scenario may have ended it
        }
    }

    private Destination queue(String name) throws Exception {
        return new AMQAnyDestination("ADDR:" + name + "-" + suffix + "; {create: always, node: {type: queue}}");
    }

    private Message send(Destination to, Message message) throws Exception {
        MessageProducer producer = session.createProducer(to);
        producer.send(message);
        producer.close();
        return message;
    }

    private Message receive(Destination from) throws Exception {
        MessageConsumer consumer = session.createConsumer(from);
        Message message = consumer.receive(PATIENCE);
        consumer.close();
        check(message != null, "no message");
        return message;
    }

    private <T extends Message> T through(Class<T> type, Message message) throws Exception {
        Destination queue = queue("through");
        MessageConsumer consumer = session.createConsumer(queue);
        send(queue, message);
        Message received = consumer.receive(PATIENCE);
        consumer.close();
        check(type.isInstance(received), "received " + received);
        return type.cast(received);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void same(Object expected, Object found) {
        check(expected == null ? found == null : expected.equals(found), "expected " + expected + ", found " + found);
    }

    // --- bodies

    private static void text(Scenarios world) throws Exception {
        same("grüß € \uD83D\uDE00", world.through(TextMessage.class, world.session.createTextMessage("grüß € \uD83D\uDE00")).getText());
    }

    private static void bytes(Scenarios world) throws Exception {
        BytesMessage message = world.session.createBytesMessage();
        message.writeBoolean(true);
        message.writeByte((byte) -2);
        message.writeShort((short) -300);
        message.writeInt(-70_000);
        message.writeLong(-5_000_000_000L);
        message.writeFloat(1.5f);
        message.writeDouble(-2.25);
        message.writeUTF("é");
        BytesMessage received = world.through(BytesMessage.class, message);
        same(true, received.readBoolean());
        same((byte) -2, received.readByte());
        same((short) -300, received.readShort());
        same(-70_000, received.readInt());
        same(-5_000_000_000L, received.readLong());
        same(1.5f, received.readFloat());
        same(-2.25, received.readDouble());
        same("é", received.readUTF());
    }

    private static void large(Scenarios world) throws Exception {
        byte[] body = new byte[1_000_000];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i * 31 + i / 251);
        }
        BytesMessage message = world.session.createBytesMessage();
        message.writeBytes(body);
        BytesMessage received = world.through(BytesMessage.class, message);
        byte[] found = new byte[(int) received.getBodyLength()];
        received.readBytes(found);
        check(Arrays.equals(body, found), "another body");
    }

    private static void map(Scenarios world) throws Exception {
        MapMessage message = world.session.createMapMessage();
        message.setBoolean("boolean", true);
        message.setByte("byte", (byte) -1);
        message.setShort("short", (short) -2);
        message.setInt("int", -3);
        message.setLong("long", -4L);
        message.setFloat("float", 0.5f);
        message.setDouble("double", 0.25);
        message.setString("string", "text");
        message.setBytes("bytes", new byte[] {0, 1, (byte) 255});
        MapMessage received = world.through(MapMessage.class, message);
        same(true, received.getBoolean("boolean"));
        same((byte) -1, received.getByte("byte"));
        same((short) -2, received.getShort("short"));
        same(-3, received.getInt("int"));
        same(-4L, received.getLong("long"));
        same(0.5f, received.getFloat("float"));
        same(0.25, received.getDouble("double"));
        same("text", received.getString("string"));
        check(Arrays.equals(new byte[] {0, 1, (byte) 255}, received.getBytes("bytes")), "other bytes");
    }

    private static void stream(Scenarios world) throws Exception {
        StreamMessage message = world.session.createStreamMessage();
        message.writeInt(7);
        message.writeString("seven");
        message.writeBoolean(false);
        StreamMessage received = world.through(StreamMessage.class, message);
        same(7, received.readInt());
        same("seven", received.readString());
        same(false, received.readBoolean());
    }

    private static void object(Scenarios world) throws Exception {
        ObjectMessage received = world.through(ObjectMessage.class, world.session.createObjectMessage("an object"));
        same("an object", received.getObject());
    }

    private static void empty(Scenarios world) throws Exception {
        BytesMessage received = world.through(BytesMessage.class, world.session.createBytesMessage());
        same(0L, received.getBodyLength());
    }

    // --- properties

    private static void properties(Scenarios world) throws Exception {
        TextMessage message = world.session.createTextMessage("x");
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) -8);
        message.setShortProperty("short", (short) -16);
        message.setIntProperty("int", Integer.MIN_VALUE);
        message.setLongProperty("long", Long.MIN_VALUE);
        message.setFloatProperty("float", 3.5f);
        message.setDoubleProperty("double", -1e300);
        message.setStringProperty("string", "größe");
        TextMessage received = world.through(TextMessage.class, message);
        same(true, received.getObjectProperty("boolean"));
        same((byte) -8, received.getObjectProperty("byte"));
        same((short) -16, received.getObjectProperty("short"));
        same(Integer.MIN_VALUE, received.getObjectProperty("int"));
        same(Long.MIN_VALUE, received.getObjectProperty("long"));
        same(3.5f, received.getObjectProperty("float"));
        same(-1e300, received.getObjectProperty("double"));
        same("größe", received.getObjectProperty("string"));
    }

    private static void headers(Scenarios world) throws Exception {
        TextMessage message = world.session.createTextMessage("x");
        Destination replyTo = world.queue("answers");
        world.session.createConsumer(replyTo).close();
        message.setJMSCorrelationID("correlation");
        message.setJMSReplyTo(replyTo);
        message.setJMSType("a type");
        Destination queue = world.queue("headers");
        MessageConsumer consumer = world.session.createConsumer(queue);
        MessageProducer producer = world.session.createProducer(queue);
        producer.send(message, DeliveryMode.PERSISTENT, 7, 600_000);
        Message received = consumer.receive(PATIENCE);
        check(received != null, "no message");
        same("correlation", received.getJMSCorrelationID());
        same("a type", received.getJMSType());
        same(message.getJMSMessageID(), received.getJMSMessageID());
        same(DeliveryMode.PERSISTENT, received.getJMSDeliveryMode());
        same(7, received.getJMSPriority());
        same(message.getJMSTimestamp(), received.getJMSTimestamp());
        check(received.getJMSExpiration() > received.getJMSTimestamp(), "expires at " + received.getJMSExpiration());
        check(!received.getJMSRedelivered(), "redelivered");
        world.send(received.getJMSReplyTo(), world.session.createTextMessage("answer"));
        same("answer", ((TextMessage) world.receive(replyTo)).getText());
    }

    // --- queues and topics

    private static void order(Scenarios world) throws Exception {
        Destination queue = world.queue("order");
        MessageConsumer consumer = world.session.createConsumer(queue);
        MessageProducer producer = world.session.createProducer(queue);
        for (int i = 0; i < 2000; i++) {
            producer.send(world.session.createTextMessage(Integer.toString(i)));
        }
        for (int i = 0; i < 2000; i++) {
            TextMessage received = (TextMessage) consumer.receive(PATIENCE);
            check(received != null, "no message " + i);
            same(Integer.toString(i), received.getText());
        }
        check(consumer.receive(WHILE) == null, "one too many");
    }

    private static void timeToLive(Scenarios world) throws Exception {
        Destination queue = world.queue("time-to-live");
        world.session.createConsumer(queue).close();
        MessageProducer producer = world.session.createProducer(queue);
        producer.send(world.session.createTextMessage("short"), DeliveryMode.NON_PERSISTENT, 4, 50);
        producer.send(world.session.createTextMessage("long"), DeliveryMode.NON_PERSISTENT, 4, 600_000);
        Thread.sleep(200);
        same("long", ((TextMessage) world.receive(queue)).getText());
    }

    private static void requestReply(Scenarios world) throws Exception {
        Destination requests = world.queue("requests");
        MessageConsumer server = world.session.createConsumer(requests);
        Session other = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue answers = other.createTemporaryQueue();
        MessageConsumer waiting = other.createConsumer(answers);
        Message request = other.createTextMessage("question");
        request.setJMSReplyTo(answers);
        other.createProducer(requests).send(request);
        Message received = server.receive(PATIENCE);
        check(received != null, "no request");
        TextMessage answer = world.session.createTextMessage("answer");
        answer.setJMSCorrelationID(received.getJMSMessageID());
        world.send(received.getJMSReplyTo(), answer);
        Message found = waiting.receive(PATIENCE);
        check(found != null, "no answer");
        same(request.getJMSMessageID(), found.getJMSCorrelationID());
    }

    private static void topic(Scenarios world) throws Exception {
        Destination all = new AMQAnyDestination("ADDR:amq.topic/" + world.suffix + ".#");
        Destination one = new AMQAnyDestination("ADDR:amq.topic/" + world.suffix + ".*.x");
        MessageConsumer first = world.session.createConsumer(all);
        MessageConsumer second = world.session.createConsumer(one);
        world.send(new AMQAnyDestination("ADDR:amq.topic/" + world.suffix + ".a.x"), world.session.createTextMessage("both"));
        world.send(new AMQAnyDestination("ADDR:amq.topic/" + world.suffix + ".a"), world.session.createTextMessage("first"));
        same("both", ((TextMessage) first.receive(PATIENCE)).getText());
        same("first", ((TextMessage) first.receive(PATIENCE)).getText());
        same("both", ((TextMessage) second.receive(PATIENCE)).getText());
        check(second.receive(WHILE) == null, "one too many");
    }

    private static void durableSubscription(Scenarios world) throws Exception {
        Topic topic = (Topic) new AMQAnyDestination("ADDR:amq.topic/" + world.suffix);
        String name = "subscription-" + world.suffix;
        world.session.createDurableSubscriber(topic, name).close();
        world.send((Destination) topic, world.session.createTextMessage("kept"));
        MessageConsumer again = world.session.createDurableSubscriber(topic, name);
        Message received = again.receive(PATIENCE);
        check(received != null, "nothing was kept");
        same("kept", ((TextMessage) received).getText());
        again.close();
        world.session.unsubscribe(name);
    }

    /** Of a topic by its binding URL, whose queue is durable and exclusive: another session takes it up. */
    private static void exclusiveSubscription(Scenarios world) throws Exception {
        String name = "exclusive-" + world.suffix;
        Session first = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = first.createTopic("topic-" + world.suffix);
        first.createDurableSubscriber(topic, name).close();
        first.close();
        world.send(topic, world.session.createTextMessage("kept"));
        MessageConsumer again = world.session.createDurableSubscriber(topic, name);
        Message received = again.receive(PATIENCE);
        check(received != null, "nothing was kept");
        same("kept", ((TextMessage) received).getText());
        again.close();
        world.session.unsubscribe(name);
    }

    private static void noLocal(Scenarios world) throws Exception {
        Topic topic = world.session.createTopic("local-" + world.suffix);
        MessageConsumer others = world.session.createConsumer(topic, null, true);
        Scenarios foreign = new Scenarios(world.url);
        foreign.open();
        world.send(topic, world.session.createTextMessage("local"));
        foreign.send(topic, foreign.session.createTextMessage("foreign"));
        Message received = others.receive(PATIENCE);
        foreign.close();
        check(received != null, "nothing came");
        same("foreign", ((TextMessage) received).getText());
        same(null, others.receive(WHILE));
    }

    /** As Apache's TemporaryQueueTest has it: of the connection, not of the session. */
    private static void temporaryQueue(Scenarios world) throws Exception {
        Session first = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = first.createTemporaryQueue();
        first.createProducer(queue).send(first.createTextMessage("kept"));
        Scenarios foreign = new Scenarios(world.url);
        foreign.open();
        foreign.send(queue, foreign.session.createTextMessage("foreign"));
        first.close();
        try {
            foreign.session.createConsumer(queue);
            check(false, "another connection consumes");
        } catch (JMSException expected) {
            // it is the first connection's
        }
        foreign.close();
        MessageConsumer consumer = world.session.createConsumer(queue);
        same("kept", ((TextMessage) consumer.receive(PATIENCE)).getText());
        same("foreign", ((TextMessage) consumer.receive(PATIENCE)).getText());
        consumer.close();
    }

    private static void browser(Scenarios world) throws Exception {
        Destination queue = world.queue("browser");
        world.session.createConsumer(queue).close();
        for (int i = 0; i < 5; i++) {
            world.send(queue, world.session.createTextMessage(Integer.toString(i)));
        }
        QueueBrowser browser = world.session.createBrowser((Queue) queue);
        Enumeration<?> found = browser.getEnumeration();
        for (int i = 0; i < 5; i++) {
            check(found.hasMoreElements(), "only " + i);
            same(Integer.toString(i), ((TextMessage) found.nextElement()).getText());
        }
        browser.close();
        same("0", ((TextMessage) world.receive(queue)).getText());
    }

    private static void twoConsumers(Scenarios world) throws Exception {
        Destination queue = world.queue("two-consumers");
        Session other = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer first = world.session.createConsumer(queue);
        MessageConsumer second = other.createConsumer(queue);
        Session sending = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = sending.createProducer(queue);
        for (int i = 0; i < 20; i++) {
            producer.send(sending.createTextMessage(Integer.toString(i)));
        }
        int count = 0;
        long end = System.nanoTime() + PATIENCE * 1_000_000;
        while (count < 20 && System.nanoTime() < end) {
            count += first.receive(10) == null ? 0 : 1;
            count += second.receive(10) == null ? 0 : 1;
        }
        same(20, count);
    }

    private static void exclusive(Scenarios world) throws Exception {
        String address = "ADDR:exclusive-" + world.suffix
            + "; {create: always, node: {type: queue}, link: {x-subscribes: {exclusive: true}}}";
        world.session.createConsumer(new AMQAnyDestination(address));
        Connection other = new AMQConnectionFactory(world.url).createConnection();
        try {
            other.start();
            Session session = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(new AMQAnyDestination(address));
            throw new AssertionError("a second exclusive subscription");
        } catch (JMSException expected) {
            // resource-locked
        } finally {
            other.close();
        }
    }

    private static void noQueue(Scenarios world) throws Exception {
        try {
            world.session.createConsumer(new AMQAnyDestination("ADDR:none-" + world.suffix + "; {assert: always}"));
            throw new AssertionError("a queue that there is not");
        } catch (JMSException expected) {
            // not-found
        }
        Session another = world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        another.createConsumer(world.queue("after-an-error")).close();
    }

    // --- transactions

    // Not among them, since Broker-J differs from JMS there: NOT of what is unknown, and integers that are divided.
    private static final String[][] SELECTORS = {
        // What is chosen of the messages 0 to 4, whose property n is their number, and whose color goes red, blue, red, ...
        {"color = 'red'", "024"},
        {"color <> 'red'", "13"},
        {"NOT color = 'red'", "13"},
        {"n > 2", "34"},
        {"n >= 1 AND n < 3", "12"},
        {"n = 0 OR n = 4", "04"},
        {"n = 2.0", "2"},
        {"n BETWEEN 1 AND 3", "123"},
        {"n NOT BETWEEN 1 AND 3", "04"},
        {"color IN ('red', 'green')", "024"},
        {"color NOT IN ('red', 'green')", "13"},
        {"color LIKE 'r%'", "024"},
        {"color LIKE '_lue'", "13"},
        {"color NOT LIKE '%e'", "024"},
        {"percent LIKE '%!%' ESCAPE '!'", "01234"},
        {"odd", "13"},
        {"NOT odd", "024"},
        {"odd = TRUE", "13"},
        {"missing IS NULL", "01234"},
        {"missing IS NOT NULL", ""},
        {"missing = 1", ""},
        {"missing = 1 OR n = 1", "1"},
        {"missing = 1 AND n = 1", ""},
        {"n * 2 + 1 = 5", "2"},
        {"-n = -3", "3"},
        {"n / 2.0 = 1", "2"},
        {"half = 0.5", "1"},
        {"half > n", ""},
        {"color = 5", ""},
        {"color = 'it''s'", ""},
        {"JMSType = 'even'", "024"},
        {"JMSCorrelationID = 'c3'", "3"},
        {"JMSPriority > 4", "34"},
        {"JMSDeliveryMode = 'PERSISTENT'", "01234"},
        {"JMSTimestamp > 1700000000000", "01234"},
    };

    private void sendColors(Destination queue) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 5; i++) {
            Message message = session.createTextMessage(Integer.toString(i));
            message.setStringProperty("color", i % 2 == 0 ? "red" : "blue");
            message.setStringProperty("percent", "10%");
            message.setBooleanProperty("odd", i % 2 == 1);
            message.setIntProperty("n", i);
            message.setDoubleProperty("half", i / 2.0);
            message.setJMSType(i % 2 == 0 ? "even" : "odd");
            message.setJMSCorrelationID("c" + i);
            producer.send(message, DeliveryMode.PERSISTENT, i + 2, 0);
        }
        producer.close();
    }

    private static void selectingBrowser(Scenarios world) throws Exception {
        Destination queue = world.queue("selecting-browser");
        world.session.createConsumer(queue).close();
        world.sendColors(queue);
        StringBuilder wrong = new StringBuilder();
        for (String[] each : SELECTORS) {
            StringBuilder found = new StringBuilder();
            QueueBrowser browser = world.session.createBrowser((Queue) queue, each[0]);
            Enumeration<?> messages = browser.getEnumeration();
            while (messages.hasMoreElements()) {
                found.append(((TextMessage) messages.nextElement()).getText());
            }
            browser.close();
            if (!each[1].contentEquals(found)) {
                wrong.append(each[0] + " chooses " + found + ", not " + each[1] + "; ");
            }
        }
        same("", wrong.toString());
    }

    private static void selector(Scenarios world) throws Exception {
        Destination queue = world.queue("selector");
        MessageConsumer red = world.session.createConsumer(queue, "color = 'red'");
        world.sendColors(queue);
        for (String each : new String[] {"0", "2", "4"}) {
            same(each, ((TextMessage) red.receive(PATIENCE)).getText());
        }
        check(red.receive(WHILE) == null, "one too many");
        MessageConsumer rest = world.session.createConsumer(queue);
        same("1", ((TextMessage) rest.receive(PATIENCE)).getText());
        same("3", ((TextMessage) rest.receive(PATIENCE)).getText());
        check(rest.receive(WHILE) == null, "one too many");
        try {
            world.connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createConsumer(queue, "color =");
            throw new AssertionError("a selector that is none");
        } catch (JMSException expected) {
            // the client itself, or the broker
        }
    }

    private static void txCommit(Scenarios world) throws Exception {
        Destination queue = world.queue("tx");
        Session tx = world.connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = tx.createProducer(queue);
        for (int i = 0; i < 3; i++) {
            producer.send(tx.createTextMessage(Integer.toString(i)));
        }
        MessageConsumer consumer = world.session.createConsumer(queue);
        check(consumer.receive(WHILE) == null, "there before the commit");
        tx.commit();
        for (int i = 0; i < 3; i++) {
            same(Integer.toString(i), ((TextMessage) consumer.receive(PATIENCE)).getText());
        }
    }

    private static void txRollback(Scenarios world) throws Exception {
        Destination queue = world.queue("tx");
        world.send(queue, world.session.createTextMessage("stays"));
        Session tx = world.connection.createSession(true, Session.SESSION_TRANSACTED);
        tx.createProducer(queue).send(tx.createTextMessage("never"));
        MessageConsumer consumer = tx.createConsumer(queue);
        same("stays", ((TextMessage) consumer.receive(PATIENCE)).getText());
        tx.rollback();
        Message again = consumer.receive(PATIENCE);
        check(again != null && again.getJMSRedelivered(), "not redelivered: " + again);
        same("stays", ((TextMessage) again).getText());
        tx.commit();
        check(consumer.receive(WHILE) == null, "what was rolled back");
    }

    private static void recover(Scenarios world) throws Exception {
        Destination queue = world.queue("recover");
        Session session = world.connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(queue);
        world.send(queue, world.session.createTextMessage("twice"));
        check(consumer.receive(PATIENCE) != null, "no message");
        session.recover();
        Message again = consumer.receive(PATIENCE);
        check(again != null && again.getJMSRedelivered(), "not redelivered: " + again);
        again.acknowledge();
    }

    // --- distributed transactions

    private static final class Id implements Xid {
        private final byte[] global;
        private final byte[] branch;

        Id(String global, String branch) {
            this.global = global.getBytes(StandardCharsets.UTF_8);
            this.branch = branch.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch;
        }
    }

    private Id id(String branch) {
        return new Id(suffix, branch);
    }

    private XASession xa() throws Exception {
        XAConnection other = new AMQConnectionFactory(url).createXAConnection();
        other.start();
        return other.createXASession();
    }

    private static void dtxCommit(Scenarios world) throws Exception {
        Destination queue = world.queue("dtx");
        MessageConsumer consumer = world.session.createConsumer(queue);
        XASession xa = world.xa();
        XAResource resource = xa.getXAResource();
        Id id = world.id("commit");
        resource.start(id, XAResource.TMNOFLAGS);
        xa.createProducer(queue).send(xa.createTextMessage("in a transaction"));
        resource.end(id, XAResource.TMSUCCESS);
        check(consumer.receive(WHILE) == null, "there before the commit");
        same(XAResource.XA_OK, resource.prepare(id));
        check(consumer.receive(WHILE) == null, "there before the commit");
        resource.commit(id, false);
        same("in a transaction", ((TextMessage) consumer.receive(PATIENCE)).getText());
        xa.close();
    }

    private static void dtxOnePhase(Scenarios world) throws Exception {
        Destination queue = world.queue("dtx");
        MessageConsumer consumer = world.session.createConsumer(queue);
        XASession xa = world.xa();
        XAResource resource = xa.getXAResource();
        Id id = world.id("one phase");
        resource.start(id, XAResource.TMNOFLAGS);
        xa.createProducer(queue).send(xa.createTextMessage("one phase"));
        resource.end(id, XAResource.TMSUCCESS);
        resource.commit(id, true);
        same("one phase", ((TextMessage) consumer.receive(PATIENCE)).getText());
        xa.close();
    }

    private static void dtxRollback(Scenarios world) throws Exception {
        Destination queue = world.queue("dtx");
        world.send(queue, world.session.createTextMessage("stays"));
        XASession xa = world.xa();
        XAResource resource = xa.getXAResource();
        Id id = world.id("rollback");
        MessageConsumer taking = xa.createConsumer(queue);
        resource.start(id, XAResource.TMNOFLAGS);
        check(taking.receive(PATIENCE) != null, "no message");
        xa.createProducer(queue).send(xa.createTextMessage("never"));
        resource.end(id, XAResource.TMSUCCESS);
        resource.prepare(id);
        resource.rollback(id);
        taking.close();
        xa.close();
        same("stays", ((TextMessage) world.receive(queue)).getText());
        MessageConsumer consumer = world.session.createConsumer(queue);
        check(consumer.receive(WHILE) == null, "what was rolled back");
    }

    private static void dtxJoinSuspend(Scenarios world) throws Exception {
        Destination queue = world.queue("dtx");
        MessageConsumer consumer = world.session.createConsumer(queue);
        XASession first = world.xa();
        XASession second = world.xa();
        XAResource one = first.getXAResource();
        XAResource two = second.getXAResource();
        Id id = world.id("join");
        one.start(id, XAResource.TMNOFLAGS);
        first.createProducer(queue).send(first.createTextMessage("first"));
        one.end(id, XAResource.TMSUSPEND);
        one.start(id, XAResource.TMRESUME);
        one.end(id, XAResource.TMSUCCESS);
        two.start(id, XAResource.TMJOIN);
        second.createProducer(queue).send(second.createTextMessage("second"));
        two.end(id, XAResource.TMSUCCESS);
        one.prepare(id);
        one.commit(id, false);
        same("first", ((TextMessage) consumer.receive(PATIENCE)).getText());
        same("second", ((TextMessage) consumer.receive(PATIENCE)).getText());
        first.close();
        second.close();
    }

    private static void dtxRecover(Scenarios world) throws Exception {
        Destination queue = world.queue("dtx");
        world.session.createConsumer(queue).close();
        XASession xa = world.xa();
        XAResource resource = xa.getXAResource();
        Id id = world.id("recover");
        resource.start(id, XAResource.TMNOFLAGS);
        xa.createProducer(queue).send(xa.createTextMessage("in doubt"));
        resource.end(id, XAResource.TMSUCCESS);
        resource.prepare(id);
        boolean isThere = false;
        for (Xid each : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            isThere |= Arrays.equals(each.getGlobalTransactionId(), id.getGlobalTransactionId())
                && Arrays.equals(each.getBranchQualifier(), id.getBranchQualifier());
        }
        check(isThere, "not among what is prepared");
        resource.rollback(id);
        xa.close();
    }

    private static void dtxErrors(Scenarios world) throws Exception {
        XASession xa = world.xa();
        try {
            xa.getXAResource().commit(world.id("unknown"), false);
            throw new AssertionError("committed what is unknown");
        } catch (XAException expected) {
            same(XAException.XAER_NOTA, expected.errorCode);
        }
        xa.close();
    }
}
