import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQAnyDestination;
import org.apache.qpid.client.AMQConnection;
import org.apache.qpid.client.AMQConnectionFactory;
import org.apache.qpid.jms.ConnectionListener;

/**
 * What the Qpid JMS client does when it loses its connection and gets another: `FailOver URL`.
 *
 * In each round it sends and receives, prints "ready", waits for a line and until it has failed over, and goes on.
 * Prints "ok" after the last round if each message was received that was sent, and what was acknowledged not again.
 */
public class FailOver {
    private static final long PATIENCE = 60_000;
    private static final long WHILE = 300;
    private static final int ROUNDS = 2;
    private static final int HALF = 50;

    public static void main(String[] arguments) {
        try {
            run(arguments[0]);
            System.out.println("ok");
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String url) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Semaphore over = new Semaphore(0);
        Connection connection = new AMQConnectionFactory(url).createConnection();
        ((AMQConnection) connection).setConnectionListener(new Listener(over));
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session held = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Session tx = connection.createSession(true, Session.SESSION_TRANSACTED);
        connection.start();
        Destination queue = queue("fail-over");
        Destination heldQueue = queue("fail-over-held");
        Destination txQueue = queue("fail-over-tx");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageConsumer heldConsumer = held.createConsumer(heldQueue);
        MessageConsumer txConsumer = tx.createConsumer(txQueue);
        MessageProducer producer = session.createProducer(queue);
        MessageProducer heldProducer = session.createProducer(heldQueue);
        MessageProducer txProducer = tx.createProducer(txQueue);
        for (MessageProducer each : new MessageProducer[] {producer, heldProducer, txProducer}) {
            each.setDeliveryMode(DeliveryMode.PERSISTENT);
        }
        for (int round = 0; round < ROUNDS; round++) {
            TreeSet<Integer> received = new TreeSet<>();
            for (int i = 0; i < HALF; i++) {
                producer.send(session.createTextMessage(Integer.toString(i)));
            }
            for (int i = 0; i < HALF / 2; i++) {
                received.add(number(consumer));
            }
            heldProducer.send(session.createTextMessage("7"));
            same(7, number(heldConsumer));
            txProducer.send(tx.createTextMessage("1"));
            tx.commit();
            same(1, number(txConsumer));
            txProducer.send(tx.createTextMessage("2"));

            System.out.println("ready");
            lines.readLine();
            if (!over.tryAcquire(PATIENCE, TimeUnit.MILLISECONDS)) {
                throw new AssertionError("no fail-over");
            }
            for (int i = HALF; i < 2 * HALF; i++) {
                producer.send(session.createTextMessage(Integer.toString(i)));
            }
            while (received.size() < 2 * HALF) {
                received.add(number(consumer));
            }
            none(consumer, "a message twice that was acknowledged");
            // What was not acknowledged comes again, until the session has found out that it has failed over.
            TextMessage again = (TextMessage) heldConsumer.receive(PATIENCE);
            while (again != null) {
                same(7, Integer.parseInt(again.getText()));
                try {
                    again.acknowledge();
                } catch (JMSException hasFailedOver) {
                    held.recover();
                }
                again = (TextMessage) heldConsumer.receive(WHILE);
            }
            // What was not committed has not happened.
            try {
                tx.commit();
                throw new AssertionError("committed what was begun before");
            } catch (JMSException expected) {
                // it is rolled back
            }
            same(1, number(txConsumer));
            tx.commit();
            none(txConsumer, "what was never committed");
        }
        connection.close();
    }

    private static Destination queue(String name) throws Exception {
        return new AMQAnyDestination("ADDR:" + name + "; {create: always, node: {type: queue, durable: true}}");
    }

    private static int number(MessageConsumer consumer) throws JMSException {
        TextMessage message = (TextMessage) consumer.receive(PATIENCE);
        if (message == null) {
            throw new AssertionError("no message");
        }
        return Integer.parseInt(message.getText());
    }

    private static void none(MessageConsumer consumer, String what) throws JMSException {
        if (consumer.receive(WHILE) != null) {
            throw new AssertionError(what);
        }
    }

    private static void same(int expected, int found) {
        if (expected != found) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static final class Listener implements ConnectionListener {
        private final Semaphore over;

        Listener(Semaphore over) {
            this.over = over;
        }

        @Override
        public void bytesSent(long count) {
            // not of interest
        }

        @Override
        public void bytesReceived(long count) {
            // not of interest
        }

        @Override
        public boolean preFailover(boolean redirect) {
            return true;
        }

        @Override
        public boolean preResubscribe() {
            return true;
        }

        @Override
        public void failoverComplete() {
            over.release();
        }
    }
}
